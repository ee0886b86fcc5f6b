"""A dialect: what a family of models understands, stored as a folder of files.

`templates/<dialect>/` holds `dialect.yaml` (settings), one template a stage and the partials.
The user's own `templates/` folder may hold a file of the same name, which then wins, and whole
dialects of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import TemplateError
from orchestrator.message import Block, Message
from orchestrator.prompts.markers import USUAL_MARKERS, Markers
from orchestrator.prompts.placeholders import STAGES, family_of
from orchestrator.prompts.steps import answer_blocks, is_step, to_plain_message
from orchestrator.prompts.template_files import (
    ENDINGS,
    Place,
    all_places,
    dialect_places,
    get_shipped_folder,
    places,
    read_file,
    read_yaml,
)
from orchestrator.support.spelling import find_close

if TYPE_CHECKING:
    from orchestrator.prompts.partials import Partial

# The dialect of models that no pattern names.
DEFAULT = "tool-use"

_PROTOCOLS = ("xml", "tool_use", "text")
_MEMBERS = (
    *("patterns", "extends", "protocol", "parser", "turn_markers", "unknown_value", "no_repeat"),
    *("asks_first", "grounded", "engine_cites", "decodes_answers", "tools_in_prompt"),
    "hands_on",
    *("stages", "models"),
)
_STAGE = ("template", "enabled", "inference")
_INFERENCE = ("maximumLength", "temperature", "topP", "topK", "stopSequences")
_KINDS = {str: "a text", bool: "true or false", list: "a list"}

_T = TypeVar("_T", str, bool, list[Any])
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[0-9]+)?")
_PROFILE = re.compile(r"[a-z]{2,6}(?:-gov)?\.(?=[a-z0-9]+\.)")


@dataclass(frozen=True, slots=True)
class StageDefaults:
    """A stage's template and settings in a dialect, for definitions that do not say them."""

    template: str
    source: str
    enabled: bool
    # Bedrock's: `maximumLength`, `temperature`, `topP`, `topK`, `stopSequences`.
    inference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What a family of models understands."""

    name: str
    family: str  # the shipped dialect that it is or extends: AWS documents those
    # How calls are written: `xml` tags in the text, native `tool_use` blocks, or `text` for raw
    # text prompts.
    protocol: str
    parser: str  # the parser that reads the replies
    unknown_value: str  # may stand for a parameter's value that the user did not give
    no_repeat: bool  # whether a call that changes something is not carried out twice in a turn
    # Whether a call that changes something waits for the user's yes, unless he said to do it
    asks_first: bool
    grounded: bool  # whether answers and values are held against what was said and returned
    engine_cites: bool  # whether the engine finds an answer's sources, since the model can't
    decodes_answers: bool  # whether entities that a model copies into an answer are turned back
    # Whether the answer of the one collaborator that was asked is the supervisor's
    hands_on: bool
    # Whether its models know only those tools that their prompt describes, although their calls may
    # be native blocks
    tools_in_prompt: bool
    stages: Mapping[str, StageDefaults]
    places: tuple[Place, ...]  # where its files are looked for, best first
    markers: Markers  # what opens a turn in its raw texts, and so may not stand in a value
    _models: tuple[Mapping[str, Any], ...] = ()
    _partials: dict[str, Partial] = field(default_factory=dict, repr=False)

    def for_model(self, model_id: str) -> Dialect:
        """The dialect with its settings for this model, if it has any."""
        bare = bare_model_id(model_id)
        for entry in self._models:
            if _longest_match(bare, entry["patterns"]):
                stages = {
                    stage: replace(
                        defaults, inference=entry["stages"].get(stage, {}) or defaults.inference
                    )
                    for stage, defaults in self.stages.items()
                }
                return replace(self, stages=stages)
        return self

    def read(self, file: str) -> tuple[str, str]:
        """The text of one of the dialect's files, or of the user's own templates, and its path."""
        text, path = read_file(file, self.places)
        return text, str(path)

    def partial(self, name: str, **context: Any) -> str:
        """Renders the partial `<name>.j2` with plain texts, numbers, dicts and lists.

        Raises:
            TemplateError: There is no such partial, it is wrong, or it lacks a value.
        """
        return self._compile_partial(name)(context)

    def find_item_partial(self, name: str, list_name: str) -> Partial | None:
        """The partial `name`, if it renders only a list and each item for itself."""
        compiled = self._compile_partial(name)
        return compiled if compiled.list_name == list_name else None

    def _compile_partial(self, name: str) -> Partial:
        compiled = self._partials.get(name)
        if compiled is None:
            from orchestrator.prompts.partials import compile_partial

            text, source = self.read(f"{name}.j2")
            compiled = self._partials[name] = compile_partial(text, source)
        return compiled

    def results_text(self, results: Sequence[Mapping[str, Any]]) -> str:
        """Results of calls as text, for a dialect without native tools; see `step_messages`."""
        if any(result.get("markup") for result in results):
            from orchestrator.prompts.partials import Encoded

            results = [
                {**result, "text": Encoded(result["text"])} if result.get("markup") else result
                for result in results
            ]
        return self._compile_partial("function_results")({"results": results})

    def step_text(self, message: Mapping[str, Any]) -> str:
        """A message of the scratchpad, as it stands inside a longer text.

        What the model wrote in text keeps its tags, as do the results that a partial has rendered.
        """
        return self.partial("agent_scratchpad", messages=[self._step(message)])

    def history_text(self, messages: Sequence[Mapping[str, Any]], *, steps: bool = True) -> str:
        """Earlier turns inside a longer text: questions, answers and, with `steps`, calls."""
        shown = [
            self._step(message) if is_step(message) else to_plain_message(message)
            for message in messages
            if steps or not is_step(message)
        ]
        return self.partial("conversation_history", messages=shown)

    def _step(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.protocol == "tool_use" and message["role"] == "user":
            return message  # results, whose texts others wrote
        from orchestrator.prompts.partials import Encoded

        content = [
            {"text": Encoded(block["text"])} if "text" in block else block
            for block in message["content"]
        ]
        return {"role": message["role"], "content": content}

    def answer_message(self, content: Sequence[Block]) -> Message:
        """The last reply of a finished turn, as later turns see it in their history.

        It has the thinking and the answer: `<thinking>…</thinking><answer>…</answer>`.
        """
        # Bedrock keeps both in the history that it sends (recorded).
        return Message("assistant", answer_blocks(content), "conversation_history")

    def question_message(self, text: str) -> Message:
        """The user's input of a finished turn, as later turns see it in their history."""
        return Message("user", [{"text": text}], "conversation_history")


def bare_model_id(model_id: str) -> str:
    """The model's id without ARN and inference profile prefix, in lower case."""
    bare = model_id.lower()
    if bare.startswith("arn:"):
        bare = bare.rsplit("/", 1)[-1]
    return _PROFILE.sub("", bare, count=1) if _PROFILE.match(bare) else bare


def dialect_for(model_id: str, overrides: Path | None = None) -> str:
    """The name of the dialect for a model: an id, an inference profile, an ARN, or any other name.

    The longest pattern that matches wins, those of `overrides` first, which is the user's own
    `templates/` folder; a model that no pattern names gets `tool-use`.

    Raises:
        TemplateError: A `dialect.yaml` is wrong.
    """
    bare = bare_model_id(model_id)
    best, name = 0, DEFAULT
    custom = map(_read_patterns, dialect_places(overrides) if overrides else ())
    for dialect, patterns in (*custom, *_read_shipped_patterns()):
        match = _longest_match(bare, patterns)
        if match > best:
            best, name = match, dialect
    return name


def list_dialects(overrides: Path | None = None) -> dict[str, list[str]]:
    """The dialects, the user's own first, and the patterns of the model ids that each is for.

    Raises:
        TemplateError: A `dialect.yaml` is wrong.
    """
    custom = map(_read_patterns, dialect_places(overrides) if overrides else ())
    found: dict[str, list[str]] = {}
    for name, patterns in (*custom, *_read_shipped_patterns()):
        found.setdefault(name, patterns)
    return found


@cache
def _read_shipped_patterns() -> tuple[tuple[str, list[str]], ...]:
    return tuple(_read_patterns(place) for place in dialect_places(get_shipped_folder()))


def _read_patterns(place: Place) -> tuple[str, list[str]]:
    text, file = read_file("dialect.yaml", (place,))
    return place.folder.name, _read_texts(read_yaml(text, file), "patterns", file)


def _longest_match(bare: str, patterns: Sequence[str]) -> int:
    return max((len(p) for p in patterns if fnmatchcase(bare, p.lower())), default=0)


def load_dialect(name: str, overrides: Path | None = None, *, model_id: str = "") -> Dialect:
    """Loads a dialect, with its settings for a model if it has any.

    `overrides` is the user's own `templates/` folder.

    Raises:
        TemplateError: There is no such dialect, or one of its files is wrong.
    """
    dialect = _read_shipped_dialect(name) if overrides is None else _read_dialect(name, overrides)
    return dialect.for_model(model_id) if model_id else dialect


@cache
def _read_shipped_dialect(name: str) -> Dialect:
    # Its files do not change while a program runs, and most agents have one of them.
    return _read_dialect(name, None)


def _read_dialect(name: str, overrides: Path | None) -> Dialect:
    if not _NAME.fullmatch(name):
        raise TemplateError(f"{name!r} is not the name of a dialect: letters, digits, '-' and '_'")
    files, lineage = _read_lineage(name, overrides)
    where = all_places(lineage, overrides)

    def find(member: str) -> _File:
        return next((file for file in files if member in file.data), files[0])

    protocol = find("protocol").get("protocol", "")
    if protocol not in _PROTOCOLS:
        message = f"'protocol' must be one of {', '.join(_PROTOCOLS)}, not {protocol!r}"
        raise find("protocol").error(message)
    return Dialect(
        name=name,
        family=family_of(lineage, protocol),
        protocol=protocol,
        parser=find("parser").get("parser", "tool_use" if protocol == "tool_use" else "auto"),
        unknown_value=find("unknown_value").get("unknown_value", ""),
        no_repeat=find("no_repeat").get("no_repeat", False),
        asks_first=find("asks_first").get("asks_first", False),
        grounded=find("grounded").get("grounded", False),
        engine_cites=find("engine_cites").get("engine_cites", False),
        decodes_answers=find("decodes_answers").get("decodes_answers", False),
        hands_on=find("hands_on").get("hands_on", False),
        tools_in_prompt=protocol != "tool_use"
        or find("tools_in_prompt").get("tools_in_prompt", False),
        stages=_read_stages(files, where),
        places=where,
        markers=Markers(find("turn_markers").texts("turn_markers") or USUAL_MARKERS),
        _models=find("models").models(),
    )


def _unknown_dialect_error(name: str, overrides: Path | None) -> TemplateError:
    own = dialect_places(overrides) if overrides else []
    there = sorted({place.folder.name for place in (*own, *dialect_places(get_shipped_folder()))})
    close = find_close(name, there)
    meant = f": did you mean {close!r}?" if close else "."
    return TemplateError(
        f"there is no dialect {name!r}{meant} There are {', '.join(there)}, and a folder with a "
        "dialect.yaml is one of your own",
        file=overrides and overrides / name,
    )


def _read_lineage(name: str, overrides: Path | None) -> tuple[list[_File], list[str]]:
    """The files of a dialect and of those that it extends, and their names."""
    files: list[_File] = []
    lineage: list[str] = []
    while name:
        where = places(name, overrides)
        exists = any((place.folder / "dialect.yaml").is_file() for place in where)
        if not exists or name in lineage:
            if not files:
                raise _unknown_dialect_error(name, overrides)
            why = "extends itself" if exists else "is not there"
            raise files[-1].error(f"'extends' names the dialect {name!r}, which {why}")
        text, path = read_file("dialect.yaml", where)
        files.append(_File(read_yaml(text, path), path))
        lineage.append(name)
        name = files[-1].get("extends", "")
    return files, lineage


def _read_stages(files: Sequence[_File], where: Sequence[Place]) -> dict[str, StageDefaults]:
    """The stages, in the order of a turn; what a file leaves out comes from what it extends."""
    entries: dict[str, dict[str, Any]] = {}
    for file in reversed(files):
        for stage, entry in file.stages():
            entries[stage] = {**entries.get(stage, {}), **entry}
    stages = {}
    for stage, entry in sorted(entries.items(), key=lambda it: STAGES.index(it[0])):
        if "template" not in entry:
            raise files[0].error(f"the stage {stage} needs a 'template': a file's name")
        text, path = read_file(entry["template"], where, ENDINGS)
        enabled, inference = entry.get("enabled") is True, entry.get("inference", {})
        stages[stage] = StageDefaults(text, str(path), enabled, inference)
    return stages


class _File:
    """One `dialect.yaml`; every error names the file and the member."""

    def __init__(self, data: Mapping[str, Any], file: Path) -> None:
        self.data, self.file = data, file
        self._check_members(data, _MEMBERS, "the dialect")

    def get(self, member: str, default: _T) -> _T:
        """A member of the default's type: a text, a list, or true or false."""
        value = self.data.get(member, default)
        if not isinstance(value, type(default)):
            raise self.error(f"{member!r} must be {_KINDS[type(default)]}, not {value!r}")
        return value

    def texts(self, member: str) -> list[str]:
        """A member that is a list of texts."""
        return _read_texts(self.data, member, self.file)

    def stages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The members of each stage that the file has."""
        for stage, entry in self._stage_entries(self.data, _STAGE):
            if not isinstance(entry.get("template", ""), str):
                raise self.error(f"the stage {stage} needs a 'template': a file's name")
            read = dict(entry)
            if "inference" in entry:
                read["inference"] = self._inference(entry["inference"], stage)
            yield stage, read

    def models(self) -> tuple[Mapping[str, Any], ...]:
        """Settings for some models of the family."""
        return tuple(map(self._model, self.get("models", [])))

    def _model(self, entry: Any) -> Mapping[str, Any]:
        self._check_members(entry, ("patterns", "stages"), "an entry of 'models'")
        stages = {
            stage: self._inference(settings.get("inference"), stage)
            for stage, settings in self._stage_entries(entry, ("inference",))
        }
        return {"patterns": _read_texts(entry, "patterns", self.file), "stages": stages}

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


def _read_texts(data: Mapping[str, Any], member: str, file: Path) -> list[str]:
    """A member that is a list of texts; empty when it is missing."""
    value = data.get(member, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TemplateError(f"{member!r} must be a list of texts", file=file)
    return value
