"""`orchestrator models`: a tiny model from a folder stands for a download."""

import hashlib
import json

import pytest

from orchestrator.models import LocalModel, weights
from orchestrator.models.prompt_states import PromptStates

CONTENT = b"GGUF" + bytes(5000)


@pytest.fixture
def tiny(place, monkeypatch):
    made = weights.Weights(
        name="tiny",
        aliases=("t",),
        summary="a tiny one",
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="Apache-2.0",
        attribution="Nobody.",
    )
    monkeypatch.setattr(weights, "_registry", lambda: {"tiny": made})
    (place / "usb").mkdir()
    (place / "usb" / "tiny.gguf").write_bytes(CONTENT)
    return made


def test_what_is_here_and_what_is_not(run, tiny):
    listed = json.loads(run("models", "list", "--json").stdout)
    (model,) = listed["models"]
    assert (model["name"], model["path"], model["sha256"]) == ("tiny", None, tiny.sha256)
    shown = run("models", "list").stdout
    assert "tiny (t)  not downloaded" in shown and "Apache-2.0" in shown


def test_pull_then_path_then_remove(run, tiny, place):
    pulled = run("models", "pull", "t", "--source", "usb", "--json")
    assert pulled.exit_code == 0
    assert "licence Apache-2.0" in pulled.stderr
    path = json.loads(pulled.stdout)["path"]
    assert run("models", "path", "tiny").stdout == f"{path}\n"
    assert "tiny (t)  here" in run("models", "list").stdout
    assert run("models", "remove", "tiny").stdout == "removed tiny\n"
    assert run("models", "remove", "tiny").stdout == "was not here: tiny\n"


def test_wrong_bytes_are_refused(run, tiny, place):
    (place / "usb" / "tiny.gguf").write_bytes(CONTENT[:-1] + b"x")
    done = run("models", "pull", "tiny", "--source", "usb")
    assert done.exit_code == 1
    assert run("models", "path", "tiny").exit_code == 1


def test_an_unknown_model(run, tiny):
    done = run("models", "path", "big")
    assert done.exit_code == 2
    assert "there is no embedded model 'big'" in done.stderr


def test_an_embedding_model_is_listed_with_all_its_files(run, place, monkeypatch):
    words = weights.Weights(
        name="vectors",
        file="tokenizer.json",
        size=2,
        sha256=hashlib.sha256(b"{}").hexdigest(),
        licence="Apache-2.0",
        attribution="Nobody.",
    )
    made = weights.Weights(
        name="vectors",
        kind="embedding",
        file="model.onnx",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="Apache-2.0",
        attribution="Nobody.",
        beside=(words,),
    )
    monkeypatch.setattr(weights, "_registry", lambda: {"vectors": made})
    (place / "usb").mkdir()
    (place / "usb" / "model.onnx").write_bytes(CONTENT)
    (place / "usb" / "tokenizer.json").write_bytes(b"{}")
    assert run("models", "pull", "vectors", "--source", "usb").exit_code == 0
    (model,) = json.loads(run("models", "list", "--json").stdout)["models"]
    assert (model["kind"], model["size"]) == ("embedding", len(CONTENT) + 2)
    path = run("models", "path", "vectors").stdout.strip()
    assert path.endswith("model.onnx") and model["path"] == path
    assert run("models", "remove", "vectors").stdout == "removed vectors\n"
    assert run("models", "path", "vectors").exit_code == 1


# What models have read


@pytest.fixture
def states(place):
    made = PromptStates(place / "models" / "prompts")
    assert made.open()
    for key, size in (("a" * 64, 2_000_000), ("b" * 64, 1_000_000)):
        made.keep(
            key, lambda name, size=size: (made.folder / name).write_bytes(bytes(size)) // 1000
        )
    return made


def test_what_was_read_is_listed_and_deleted(run, states):
    listed = json.loads(run("models", "cache", "--json").stdout)
    assert (listed["size"], listed["most"]) == (3_000_000, 512_000_000)
    assert sorted((it["tokens"], it["size"]) for it in listed["prompts"]) == [
        (1000, 1_000_000),
        (2000, 2_000_000),
    ]
    shown = run("models", "cache").stdout
    assert "2,000 tokens  2 MB · used " in shown
    assert "2 prompts, 3 MB of 512 MB, in models/prompts\n" in shown
    assert run("models", "cache", "--clear").stdout == "deleted 2 prompts, 3 MB\n"
    assert states.entries() == []
    assert "0 prompts, 0 MB of 512 MB" in run("models", "cache").stdout


def test_deleting_nothing_is_fine_where_there_is_no_folder(run, place):
    assert json.loads(run("models", "cache", "--clear", "--json").stdout)["deleted"] == []
    assert not (place / "models").exists()


def test_a_pulled_model_reads_nothing_in_a_script(run, tiny, monkeypatch):
    read = []
    monkeypatch.setattr(LocalModel, "load", lambda self, progress=None: None)
    monkeypatch.setattr(LocalModel, "prepare", lambda self, request: read.append(request))
    monkeypatch.setattr(weights, "DEFAULT", "tiny")
    pull = ("models", "pull", "tiny", "--source", "usb")
    assert run(*pull).exit_code == 0
    assert run(*pull, "--no-warm").exit_code == 0
    assert read == []
    assert run(*pull, "--warm").exit_code == 0
    (request,) = read
    assert "orders__getOrder" in request.system


def test_a_model_that_cannot_read_yet_is_pulled_all_the_same(run, tiny, monkeypatch):
    # It is no model that the runtime can load.
    monkeypatch.setattr(weights, "DEFAULT", "tiny")
    done = run("models", "pull", "tiny", "--source", "usb", "--warm")
    assert done.exit_code == 0
    assert "the agent's instructions could not be read beforehand: " in done.stderr


def test_reading_beforehand_can_be_interrupted(run, tiny, monkeypatch):
    def stop(self, request):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalModel, "load", lambda self, progress=None: None)
    monkeypatch.setattr(LocalModel, "prepare", stop)
    done = run("init", "new", "--model", "local:tiny", "--warm")
    assert done.exit_code == 0
    assert "stopped; the first question reads the instructions itself" in done.stderr


def test_an_agent_without_the_weights_is_made_all_the_same(run):
    done = run("init", "new", "--warm", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["folder"] == "new"
