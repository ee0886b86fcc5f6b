"""Files in and out of the working folder."""

from __future__ import annotations

import json
import os
import unicodedata

import pytest
from hypothesis import given as for_all
from hypothesis import strategies
from interpreter_support import given, needs_sandbox, output_of, run

from orchestrator.actions.code_interpreter import file_name
from orchestrator.errors import ValidationError


@needs_sandbox
def test_a_file_goes_in_and_another_comes_out(interpreter):
    code = "text = open('table.csv').read()\nopen('sum.txt', 'w').write(text.upper())\nprint(text)"
    result = run(interpreter, code, files=[given("table.csv", b"a,b\n")])
    assert result.files == [{"name": "sum.txt", "type": "text/plain", "bytes": b"A,B\n"}]
    assert json.loads(result.text) == {
        "code_execution_output": "a,b\n\n",
        "is_error": False,
        "files_for_user": ["sum.txt (text/plain, 4 bytes)"],
    }


@needs_sandbox
def test_only_what_is_new_or_changed_comes_back(interpreter):
    files = [given("in.txt", b"in")]
    run(interpreter, "open('old.txt', 'w').write('old')", files=files)
    code = "open('in.txt').read() + open('old.txt').read()"
    assert run(interpreter, code, files=files).files == []
    code = "import os\nopen('old.txt', 'a').write('er')\nos.rename('in.txt', 'moved.txt')"
    changed = run(interpreter, code, files=files).files
    assert [(file["name"], file["bytes"]) for file in changed] == [
        ("moved.txt", b"in"),
        ("old.txt", b"older"),
    ]


@needs_sandbox
def test_a_file_that_the_program_changed_stays_until_the_user_gives_another(interpreter):
    first, second = [given("a.txt", b"first")], [given("a.txt", b"second")]
    run(interpreter, "open('a.txt', 'w').write('mine')", files=first)
    assert output_of(run(interpreter, "open('a.txt').read()", files=first)) == "'mine'"
    assert output_of(run(interpreter, "open('a.txt').read()", files=second)) == "'second'"


@needs_sandbox
@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.symlink('elsewhere', 'a.txt')",
        "import os\nos.makedirs('a.txt/b/c')\nopen('a.txt/b/c/d', 'w').close()",
        "open('a.txt', 'w').write('old')",
    ],
)
def test_what_has_the_name_of_a_users_file_is_replaced(interpreter, code):
    run(interpreter, code)
    result = run(interpreter, "open('a.txt').read()", files=[given("a.txt", b"new")])
    assert output_of(result) == "'new'"


@needs_sandbox
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("a.json", "application/json"),
        ("a.unknown-ending", "application/octet-stream"),
        ("plots/2026/a.svg", "image/svg+xml"),
        ("größe 1.txt", "text/plain"),
        ("表.csv", "text/csv"),
    ],
)
def test_names_and_media_types(interpreter, name, kind):
    code = (
        "import os\n"
        f"os.makedirs(os.path.dirname({name!r}) or '.', exist_ok=True)\n"
        f"open({name!r}, 'w').close()"
    )
    assert run(interpreter, code).files == [{"name": name, "type": kind, "bytes": b""}]


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.symlink('/etc/passwd', 'out')", "it is a link"),
        ("open('in', 'w')\nos.unlink('in')\nos.symlink('in', 'out')", "it is a link"),
        ("os.symlink('/etc', 'out')", "it is a link"),
        ("open('.a', 'w').write('x')\nos.link('.a', 'out')", "several names"),
        ("open('out', 'wb').write(bytes(1_000_001))", "more than 1000000 bytes"),
        ("open('a\\\\out', 'w').close()", "its name"),
        ("open('a\\nout', 'w').close()", "its name"),
        ("open('a\\u202eout', 'w').close()", "its name"),
        ("open(b'\\xffout', 'w').close()", "its name"),
        ("open('out', 'w')\nos.umask(0)\nos.open('out2', os.O_CREAT, 0)", ""),
    ],
)
def test_what_is_no_plain_file_is_not_returned(interpreter, code, reason):
    result = run(interpreter, f"import os\n{code}")
    assert result.details["executionError"] == ""
    if reason:
        assert result.files == []
        assert json.loads(result.text)["files_not_for_user"]
    assert reason in result.text


@needs_sandbox
def test_hidden_files_and_caches_are_not_returned(interpreter):
    code = (
        "import os\nos.makedirs('.cache/x')\nopen('.cache/x/y', 'w')\nopen('.hidden', 'w').close()"
    )
    result = run(interpreter, code)
    assert (result.files, output_of(result)) == ([], "")
    assert "files_not_for_user" not in json.loads(result.text)


@needs_sandbox
def test_many_files_are_bounded(make):
    code = "for n in range(40): open(f'{n:02}.txt', 'w').close()"
    result = run(make(files=3), code)
    assert len(result.files) == 3
    assert "only 3 files are returned" in result.text
    assert "... and 27 more" in result.text


@needs_sandbox
@pytest.mark.exhaustive
def test_nothing_of_a_stopped_program_is_lost(make):
    code = "open('part.txt', 'w').write('x')\nimport time\ntime.sleep(1000)"
    result = run(make(seconds=1.5), code)
    assert [file["name"] for file in result.files] == ["part.txt"]


BAD_NAMES = [
    *("", " ", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "..\\x", "C:\\x", "~/x/../y"),
    *("a\0b", "a\nb", "a\rb", "a\tb", " a", "a ", ".bashrc", ".cache", "a" * 256, "ä" * 128),
    *("a\u202etxt", "a\u200bb", "\ud800", "\ufeffa", "a\u2028b", "a\x7f", None, 3, b"a"),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_an_impossible_name_is_refused(name):
    with pytest.raises(ValidationError, match="file"):
        file_name(name)


@needs_sandbox
@pytest.mark.parametrize(
    "files",
    [
        [given("../x", b"")],
        [given("a", "text")],
        [given("a", None)],
        [given("a", b"1"), given("a", b"2")],
        [given("e\u0301", b"1"), given("\u00e9", b"2")],
        [given("a", bytes(3000))],
        [{"bytes": b""}],
    ],
)
def test_a_users_files_are_checked(make, files):
    with pytest.raises(ValidationError):
        run(make(scratch_bytes=2000), "print(1)", files=files)


@for_all(strategies.text(max_size=40))
def test_a_name_is_one_step_down_or_refused(text):
    try:
        name = file_name(text)
    except ValidationError:
        return
    assert os.path.basename(name) == name
    assert os.path.normpath(os.path.join("/scratch", name)) == f"/scratch/{name}"
    assert not {unicodedata.category(sign) for sign in name} & {"Cc", "Cs", "Co", "Zl", "Zp"}
    assert file_name(name) == name
