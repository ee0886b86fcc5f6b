"""`dialect.yaml`: the settings of a dialect and of those it extends, checked member by member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import TemplateError
from orchestrator.prompts.placeholders import STAGES
from orchestrator.prompts.template_files import (
    ENDINGS,
    Place,
    all_places,
    places,
    read_file,
    read_template_file,
    read_yaml,
)

PROTOCOLS = ("xml", "tool_use", "text")

_MEMBERS = (
    *("patterns", "extends", "protocol", "parser", "turn_markers", "unknown_value", "no_repeat"),
    *("stages", "models"),
)
_STAGE = ("template", "enabled", "inference")
_INFERENCE = ("maximumLength", "temperature", "topP", "topK", "stopSequences")


@dataclass(frozen=True, slots=True)
class StageDefaults:
    """A stage's template and settings in a dialect, for definitions that do not say them.

    `inference` is Bedrock's inference configuration: `maximumLength`, `temperature`, `topP`,
    `topK`, `stopSequences`.
    """

    template: str
    source: str
    enabled: bool
    inference: Mapping[str, Any]


def read_settings(name: str, overrides: Path | None) -> Settings | None:
    """The settings of a dialect and of those that it extends; `None` when it does not exist.

    Raises:
        TemplateError: A file is wrong, or what it extends is not there or extends itself.
    """
    files: list[File] = []
    lineage: list[str] = []
    while name:
        read = _read_dialect_file(name, overrides)
        if read is None or name in lineage:
            if not files:
                return None
            why = "extends itself" if read else "is not there"
            raise files[-1].error(f"'extends' names the dialect {name!r}, which {why}")
        files.append(read)
        lineage.append(name)
        name = read.text("extends", "")
    return Settings(files, lineage, all_places(lineage, overrides))


def _read_dialect_file(name: str, overrides: Path | None) -> File | None:
    where = places(name, overrides)
    if not any((place.folder / "dialect.yaml").is_file() for place in where):
        return None
    text, path = read_file("dialect.yaml", where)
    return File(read_yaml(text, path), path)


class File:
    """One `dialect.yaml`; every error names the file and the member."""

    def __init__(self, data: Mapping[str, Any], file: Path) -> None:
        self.data, self.file = data, file
        self._check_members(data, _MEMBERS, "the dialect")

    def text(self, member: str, default: str = "") -> str:
        """A member that is a text."""
        value = self.data.get(member, default)
        if not isinstance(value, str):
            raise self.error(f"{member!r} must be a text, not {value!r}")
        return value

    def texts(self, member: str) -> list[str]:
        """A member that is a list of texts."""
        return texts(self.data, member, self.file)

    def flag(self, member: str) -> bool:
        """A member that is true or false."""
        value = self.data.get(member, False)
        if not isinstance(value, bool):
            raise self.error(f"{member!r} must be true or false, not {value!r}")
        return value

    def stages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The members of each stage that the file has."""
        for stage, entry in self._stage_entries(self.data, _STAGE):
            if not isinstance(entry.get("template", ""), str):
                raise self.error(f"the stage {stage} needs a 'template': a file's name")
            read = dict(entry)
            if "inference" in entry:
                read["inference"] = self._inference(entry["inference"], stage)
            yield stage, read

    def protocol(self) -> str:
        """How calls are written: one of `PROTOCOLS`."""
        protocol = self.text("protocol")
        if protocol not in PROTOCOLS:
            message = f"'protocol' must be one of {', '.join(PROTOCOLS)}, not {protocol!r}"
            raise self.error(message)
        return protocol

    def models(self) -> tuple[Mapping[str, Any], ...]:
        """Settings for some models of the family."""
        entries = self.data.get("models", [])
        if not isinstance(entries, list):
            raise self.error("'models' must be a list")
        return tuple(self._model(entry) for entry in entries)

    def _model(self, entry: Any) -> Mapping[str, Any]:
        self._check_members(entry, ("patterns", "stages"), "an entry of 'models'")
        stages = {
            stage: self._inference(settings.get("inference"), stage)
            for stage, settings in self._stage_entries(entry, ("inference",))
        }
        return {"patterns": texts(entry, "patterns", self.file), "stages": stages}

    def _stage_entries(
        self, data: Mapping[str, Any], members: Sequence[str]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        entries = data.get("stages", {})
        self._check_members(entries, STAGES, "'stages'")
        for stage, entry in entries.items():
            self._check_members(entry, members, f"the stage {stage}")
            yield stage, entry

    def _inference(self, settings: Any, stage: str) -> Mapping[str, Any]:
        settings = {} if settings is None else settings
        self._check_members(settings, _INFERENCE, f"the inference settings of {stage}")
        stops = settings.get("stopSequences", [])
        if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
            raise self.error(f"'stopSequences' of {stage} must be a list of texts")
        # AWS: InferenceConfiguration of an agent's prompts has up to 4.
        if len(stops) > 4:
            raise self.error(f"{stage} has {len(stops)} stop sequences; Bedrock allows 4")
        return dict(settings)

    def _check_members(self, data: Any, members: Sequence[str], what: str) -> None:
        if not isinstance(data, dict):
            raise self.error(f"{what} must be a mapping, not {data!r}")
        for member in data:
            if member not in members:
                raise self.error(f"{what} has no member {member!r}; it has {', '.join(members)}")

    def error(self, message: str) -> TemplateError:
        """An error in this file."""
        return TemplateError(message, file=self.file)


class Settings:
    """The settings of a dialect; a member that its file leaves out comes from what it extends."""

    def __init__(
        self, files: Sequence[File], lineage: Sequence[str], places: tuple[Place, ...]
    ) -> None:
        self.lineage = tuple(lineage)
        self.places = places
        self._files = files

    def stages(self) -> dict[str, StageDefaults]:
        """The stages, in the order of a turn."""
        entries: dict[str, dict[str, Any]] = {}
        for file in reversed(self._files):
            for stage, entry in file.stages():
                entries[stage] = {**entries.get(stage, {}), **entry}
        return {name: self._stage(name, entries[name]) for name in STAGES if name in entries}

    def _stage(self, stage: str, entry: Mapping[str, Any]) -> StageDefaults:
        if "template" not in entry:
            raise self._files[0].error(f"the stage {stage} needs a 'template': a file's name")
        text, path = read_template_file(entry["template"], self.places, ENDINGS)
        enabled, inference = entry.get("enabled") is True, entry.get("inference", {})
        return StageDefaults(text, str(path), enabled, inference)

    def find_file(self, member: str) -> File:
        """The file that has the member; the dialect's own when none does."""
        return next((file for file in self._files if member in file.data), self._files[0])


def texts(data: Mapping[str, Any], member: str, file: Path) -> list[str]:
    """A member that is a list of texts; empty when it is missing."""
    value = data.get(member, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TemplateError(f"{member!r} must be a list of texts", file=file)
    return value
