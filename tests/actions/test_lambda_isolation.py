"""Handlers in one process: their modules, and their environment variables, do not meet."""

from __future__ import annotations

import contextvars
import gc
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from action_support import run
from test_lambda_handlers import group, handler

from orchestrator.actions import ActionGroup, lambda_environment
from orchestrator.errors import DefinitionError, DependencyFailed


def ask(made: Any) -> str:
    return run(made if isinstance(made, ActionGroup) else group(made), "now").text


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        file = folder / (f"{name}.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


USES_UTILS = """
import utils
from utils import NAME as again
def lambda_handler(event, context):
    import utils as later
    assert later is utils and again == utils.NAME
    utils.CALLS.append(1)
    return f"{utils.NAME} {len(utils.CALLS)} {__name__ != utils.__name__}"
"""


def test_two_groups_with_files_of_the_same_names(tmp_path: Path) -> None:
    before = set(sys.modules)
    path_before = list(sys.path)
    made = []
    for name in ("first", "second"):
        write(tmp_path / name, utils=f"NAME = {name!r}\nCALLS = []")
        made.append(handler(tmp_path / name, USES_UTILS))
    assert [ask(one) for one in made] == ["first 1 True", "second 1 True"]
    assert [ask(one) for one in made] == ["first 2 True", "second 2 True"]
    assert sys.path == path_before
    added = set(sys.modules) - before
    assert "utils" not in added and "handler" not in added
    own = [n for n in added if str(tmp_path) in str(getattr(sys.modules[n], "__file__", ""))]
    assert own and all(name.startswith("orchestrator_handlers.") for name in own)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("utils")


def test_the_same_file_twice_is_two_worlds(tmp_path: Path) -> None:
    write(tmp_path, utils="NAME = 'x'\nCALLS = []")
    first, second = handler(tmp_path, USES_UTILS), handler(tmp_path, USES_UTILS)
    assert [ask(first), ask(second), ask(first)] == ["x 1 True", "x 1 True", "x 2 True"]


def test_every_form_of_import_works(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "pkg/__init__": "from .inner import A\nfrom . import inner",
            "pkg/inner": "import top\nfrom top import T\nfrom ..top import T as T2\nA = 'A' + T",
            "pkg/sub/__init__": "",
            "pkg/sub/deep": "from .. import inner\nfrom ...top import T\nD = inner.A + T",
            "plain/leaf": "L = 'L'",
            "top": "import json\nT = 'T'",
        },
    )
    code = """
import pkg
import pkg.sub.deep
import pkg.sub.deep as d
from pkg import inner, sub
from pkg.sub import deep
from pkg.inner import *
import plain.leaf
from plain import leaf
import json, os.path
from . import top
def lambda_handler(event, context):
    assert pkg.sub.deep is d is deep and inner.A == A == pkg.A
    return A + d.D + plain.leaf.L + leaf.L + top.T + os.path.basename(json.__file__)
"""
    assert ask(handler(tmp_path, code)) == "ATATTLLT__init__.py"


def test_a_local_file_wins_over_an_installed_module_for_its_handler_only(tmp_path: Path) -> None:
    import yaml

    write(tmp_path, yaml="def dump(): return 'mine'")
    made = handler(tmp_path, "import yaml\ndef lambda_handler(e, c): return yaml.dump()")
    assert ask(made) == "mine"
    assert sys.modules["yaml"] is yaml


def test_a_plain_folder_does_not_hide_an_installed_module(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    made = handler(tmp_path, "import json\ndef lambda_handler(e, c): return json.dumps([1])")
    assert ask(made) == "[1]"


def test_classes_that_look_up_their_module_work(tmp_path: Path) -> None:
    code = """
from __future__ import annotations
import dataclasses, pickle, typing
from pydantic import BaseModel
from helper import Kind
@dataclasses.dataclass
class Point:
    x: int
    kind: typing.ClassVar[str] = "p"
class Model(BaseModel):
    point: Point
    kind: Kind
def lambda_handler(event, context):
    again = pickle.loads(pickle.dumps(Point(3)))
    hint = typing.get_type_hints(Point)["x"].__name__
    return str((again.x, hint, Model(point=Point(1), kind="k").kind.name))
"""
    write(tmp_path, helper="import enum\nclass Kind(enum.Enum):\n    K = 'k'")
    assert ask(handler(tmp_path, code)) == "(3, 'int', 'K')"


def test_a_circular_import_works(tmp_path: Path) -> None:
    write(
        tmp_path, a="import b\nA = 1\ndef f(): return b.B", b="import a\nB = 2\ndef g(): return a.A"
    )
    assert (
        ask(handler(tmp_path, "import a, b\ndef lambda_handler(e, c): return str(a.f() + b.g())"))
        == "3"
    )


def test_a_helper_that_fails_is_named_by_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, utils="def f():\n    return {}['x']")
    made = handler(tmp_path, "import utils\ndef lambda_handler(e, c): return utils.f()")
    with pytest.raises(Exception, match=r"raised KeyError at utils.py:2"):
        ask(made)


def test_modules_are_forgotten_with_their_handler(tmp_path: Path) -> None:
    write(tmp_path, utils="NAME = 'x'\nCALLS = []")
    made = handler(tmp_path, USES_UTILS)
    ask(made)
    package = made._module.package
    assert f"{package}.utils" in sys.modules
    del made
    gc.collect()
    assert not [name for name in sys.modules if name.startswith(package)]


def test_an_edited_file_is_seen_at_once_and_no_cache_is_left(tmp_path: Path) -> None:
    for answer in ("one", "two", "six"):  # the same size, within the same second
        write(tmp_path, utils=f"NAME = {answer!r}\nCALLS = []")
        assert ask(handler(tmp_path, USES_UTILS)).startswith(answer)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["handler.py", "utils.py"]


def test_first_calls_at_the_same_time_load_the_file_once(tmp_path: Path) -> None:
    write(tmp_path, utils="NAME = 'x'\nCALLS = []")
    made = group(handler(tmp_path, USES_UTILS))
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(ask(made))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.split()[1] for result in results) == [str(n) for n in range(1, 9)]


READS = """
import os
AT_IMPORT = os.environ["TABLE"]
from os import environ, getenv
def lambda_handler(event, context):
    read = os.environ["TABLE"], environ.get("TABLE"), getenv("TABLE"), dict(os.environ)["TABLE"]
    return f"{AT_IMPORT} {' '.join(read)}"
"""


def test_a_handlers_variables_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLE", "process")
    first = handler(tmp_path / "a", READS, environment={"TABLE": "one"})
    second = handler(tmp_path / "b", READS, environment={"TABLE": "two"})
    third = handler(tmp_path / "c", READS)
    assert [ask(made) for made in (first, second, third)] == [
        "one one one one one",
        "two two two two two",
        "process process process process process",
    ]
    assert os.environ["TABLE"] == "process"


def test_variables_do_not_leak_to_a_handler_that_runs_at_the_same_time(tmp_path: Path) -> None:
    """Both handlers are inside their function, with their variables set, when each reads them."""
    code = """
import os, threading
def lambda_handler(event, context):
    BARRIER.wait(60)
    value = os.environ.get("ONLY_HERE", "none") + os.environ["BOTH"]
    BARRIER.wait(60)
    return value
"""
    barrier = threading.Barrier(3)
    made = []
    for name, environment in (
        ("a", {"BOTH": "a", "ONLY_HERE": "x"}),
        ("b", {"BOTH": "b"}),
    ):
        one = handler(tmp_path / name, code, environment=environment)
        one._module.load().BARRIER = barrier  # type: ignore[attr-defined]
        made.append(group(one))
    results: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: ask(made[n])})) for n in range(2)
    ]
    for thread in threads:
        thread.start()
    barrier.wait(60)
    outside = os.environ.get("BOTH"), os.environ.get("ONLY_HERE")
    barrier.wait(60)
    for thread in threads:
        thread.join()
    assert (results, outside) == ({0: "xa", 1: "noneb"}, (None, None))


def test_what_a_handler_sets_and_deletes_stays_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_PROCESS", "p")
    code = """
import os
def lambda_handler(event, context):
    os.environ["MADE"] = "m"
    os.environ.setdefault("X", "not used")
    os.environ.pop("FROM_PROCESS", None)
    gone = "FROM_PROCESS" not in os.environ and "FROM_PROCESS" not in list(os.environ)
    try:
        del os.environ["FROM_PROCESS"]
    except KeyError:
        gone = gone and len(os.environ) == len(dict(os.environ))
    try:
        os.environ["N"] = 1
    except TypeError:
        return f"{os.environ['MADE']} {os.environ['X']} {gone} {'N' in os.environ}"
"""
    assert ask(handler(tmp_path, code, environment={"X": "x"})) == "m x True False"
    assert os.environ["FROM_PROCESS"] == "p"
    assert "MADE" not in os.environ and "X" not in os.environ
    assert len(os.environ) == len(list(os.environ))


def test_the_process_variables_still_reach_subprocesses_and_mocks(tmp_path: Path) -> None:
    ask(handler(tmp_path, READS, environment={"TABLE": "one"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SET_LATER", "yes")
        done = subprocess.run(["sh", "-c", "echo $SET_LATER"], capture_output=True, check=True)
        assert done.stdout == b"yes\n"
        assert contextvars.copy_context().run(os.getenv, "SET_LATER") == "yes"
    assert "SET_LATER" not in os.environ


@pytest.mark.parametrize("environment", [{"A": 1}, {"": "x"}, {"A=B": "x"}, {1: "x"}])
def test_variables_are_texts(tmp_path: Path, environment: Any) -> None:
    with pytest.raises(DefinitionError, match="the environment variable"):
        handler(tmp_path, READS, environment=environment)


FILES = """
import json, os
from pathlib import Path
with open("data/prices.json") as file:
    PRICES = json.load(file)
def lambda_handler(event, context):
    root = Path(os.environ["LAMBDA_TASK_ROOT"])
    with open(Path("data") / "prices.json", "rb") as file:
        assert json.load(file) == PRICES == json.loads((root / "data/prices.json").read_text())
    if (os.environ.get("MISSING")):
        Path("data/prices.json").read_text()
    return [PRICES, os.environ["AWS_LAMBDA_FUNCTION_NAME"] == context.function_name]
"""


def test_open_looks_beside_the_code_and_nothing_else_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "data").mkdir(parents=True)
    (tmp_path / "code" / "data" / "prices.json").write_text('{"tea": 3}')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert ask(handler(tmp_path / "code", FILES)) == '[{"tea": 3}, true]'
    assert "LAMBDA_TASK_ROOT" not in os.environ
    # What is there is found as always, and new files are where they always were.
    code = """
def lambda_handler(event, context):
    with open("log.txt", "w") as file:
        file.write("x")
    with open("log.txt") as one, open(file.name) as other:
        return one.read() + other.read()
"""
    assert ask(handler(tmp_path / "code", code, name="writer.py")) == "xx"
    assert (tmp_path / "elsewhere" / "log.txt").read_text() == "x"


def test_a_file_beside_the_code_that_a_library_does_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "data").mkdir(parents=True)
    (tmp_path / "code" / "data" / "prices.json").write_text('{"tea": 3}')
    monkeypatch.chdir(tmp_path)
    made = handler(tmp_path / "code", FILES, environment={"MISSING": "yes"})
    way = "is in the folder of the code, where it is found with `isolation: PROCESS`"
    with pytest.raises(DependencyFailed, match=f"FileNotFoundError .*; 'data/prices.json' {way}"):
        ask(made)
    (tmp_path / "code" / "tools").mkdir()
    code = """
import importlib
def lambda_handler(event, context):
    return importlib.import_module("tools.prices")
"""
    made = handler(tmp_path / "code", code, name="dynamic.py")
    with pytest.raises(DependencyFailed, match=f"ModuleNotFoundError .*; 'tools' {way}"):
        ask(made)


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1 eu-west-2"),
        ({"AWS_PROFILE": "work"}, "eu-west-3"),
        ({}, "us-east-1"),
    ],
)
def test_there_is_always_a_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], region: str
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-3\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    lambda_environment._find_profile_region.cache_clear()
    code = """
import os
def lambda_handler(event, context):
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    return " ".join(dict.fromkeys(os.environ[name] for name in names))
"""
    assert ask(handler(tmp_path, code)) == region
    lambda_environment._find_profile_region.cache_clear()


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_a_handlers_own_region_counts_for_all_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    code = """
import boto3, os
def lambda_handler(event, context):
    return f'{os.environ["AWS_REGION"]} {boto3.client("s3").meta.region_name}'
"""
    for other in ({}, dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), "")):
        own = {**other, name: "eu-west-3"}
        assert ask(handler(tmp_path, code, environment=own)) == "eu-west-3 eu-west-3"
    assert ask(handler(tmp_path, code, environment={name: ""})) == "eu-west-1 eu-west-2"
