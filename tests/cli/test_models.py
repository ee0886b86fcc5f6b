"""`orchestrator models`: a tiny model from a folder stands for a download."""

import hashlib
import json

import pytest

from orchestrator.models import weights

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
