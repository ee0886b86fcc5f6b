"""Cassettes: what real models answered once, for tests without them."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from orchestrator.errors import ResourceNotFound
from orchestrator.models import Model, RecordingModel, ReplayModel, resolve_model
from orchestrator.models.base import ModelReply, ModelRequest


class Cassette:
    """The recordings of one test: one file for each model, the first at `path`."""

    def __init__(self, path: Path, *, recording: bool, test: str) -> None:
        self.path = path
        self.recording = recording
        self._test = test
        self._files: list[Path] = []
        self._replayed: list[_DriftTrackingReplay] = []

    def __call__(self, model: Model | str) -> Model:
        """The model, recorded or replayed; a test with several asks for them in the same order."""
        number = len(self._files) + 1
        file = self.path if number == 1 else self.path.with_stem(f"{self.path.stem}.{number}")
        self._files.append(file)
        if self.recording:
            # RecordingModel appends; a test that was stopped may have left half a recording.
            _get_new_file(file).unlink(missing_ok=True)
            return RecordingModel(resolve_model(model), _get_new_file(file))
        try:
            replay = _DriftTrackingReplay(file)
        except ResourceNotFound:
            pytest.fail(
                f"there is no recording {str(file)!r}; {self._suggest_recording()}", pytrace=False
            )
        self._replayed.append(replay)
        return replay

    def _suggest_recording(self) -> str:
        return f"with credentials of the real model, run: pytest --bedrock-record {self._test!r}"

    def finish(self, *, passed: bool) -> None:
        """Saves what was recorded, if the test has passed; fails it if a prompt has changed."""
        for file in self._files if self.recording else ():
            if not passed:
                _get_new_file(file).unlink(missing_ok=True)
            elif _get_new_file(file).exists():
                os.replace(_get_new_file(file), file)
            else:
                pytest.fail(f"no model was asked, so that {str(file)!r} was not recorded")
        drifts = [drift for one in self._replayed for drift in one.drifts]
        if drifts:
            pytest.fail(f"{drifts[0]}\n{self._suggest_recording()}", pytrace=False)


def find_cassette_path(node: pytest.Item) -> Path:
    """The file of a test's recording: the one that its marker names, or one by the test's name."""
    marker = node.get_closest_marker("bedrock_cassette")
    if marker is not None and marker.args:
        named: str = marker.args[0]
        return node.path.parent / named
    name = re.sub(r"[^\w.-]+", "-", node.nodeid.partition("::")[2]).strip("-.") or "test"
    return node.path.parent / "cassettes" / node.path.stem / f"{name}.jsonl"


def _get_new_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.new")


# A turn may handle the error of a prompt without a recording, and the test would pass with another
# answer. So the replay remembers such prompts, and the fixture fails the test at its end.
class _DriftTrackingReplay(ReplayModel):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.drifts: list[str] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        try:
            return super().complete(request)
        except ResourceNotFound as error:
            self.drifts.append(error.message)
            raise

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        try:
            yield from super().stream(request)
        except ResourceNotFound as error:
            self.drifts.append(error.message)
            raise

    async def astream(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        for item in self.stream(request):  # it never waits
            yield item
