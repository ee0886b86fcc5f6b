"""A dialect: what a family of models understands, kept as a folder of files.

`templates/<dialect>/` holds `dialect.yaml` (settings), one template a stage and the partials.
The user's own `templates/` folder may hold a file of the same name, which then wins, and whole
dialects of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import TemplateError
from orchestrator.message import Block, Message
from orchestrator.prompts import steps
from orchestrator.prompts.folder import Place, dialect_places, places, read_file, read_yaml
from orchestrator.prompts.placeholders import STAGES

if TYPE_CHECKING:
    from orchestrator.prompts.partials import Partial

__all__ = ["Dialect", "StageDefaults", "dialect_for", "load_dialect"]

PROTOCOLS = ("xml", "tool_use", "text")
DEFAULT = "tool-use"
"""The dialect of models that no pattern names."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PROFILE = re.compile(r"[a-z]{2,6}(?:-gov)?\.(?=[a-z0-9]+\.)")


@dataclass(frozen=True, slots=True)
class StageDefaults:
    """A stage as a dialect ships it.

    Attributes:
        template: The template's text.
        source: The template's file.
        enabled: Whether the stage runs when the agent's definition does not say.
        inference: Bedrock's inference configuration: `maximumLength`, `temperature`, `topP`,
            `topK`, `stopSequences`.
    """

    template: str
    source: str
    enabled: bool
    inference: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What a family of models understands.

    Attributes:
        name: The folder's name.
        protocol: How calls are written: `xml` tags in the text, native `tool_use` blocks, or
            `text` for raw text prompts.
        parser: The parser that reads the replies.
        unknown_value: A text that may stand for a parameter's value that the user did not give.
        no_repeat: Whether an identical call is not carried out twice in a turn.
        stages: Defaults by prompt type.
        places: Where its files are looked for, best first.
    """

    name: str
    protocol: str
    parser: str
    unknown_value: str
    no_repeat: bool
    stages: Mapping[str, StageDefaults]
    places: tuple[Place, ...]
    _models: tuple[Mapping[str, Any], ...] = ()
    _partials: dict[str, Partial] = field(default_factory=dict, repr=False)

    def for_model(self, model_id: str) -> Dialect:
        """The dialect with the settings that it keeps for this model, if it keeps any."""
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
        """Reads one of the dialect's files, or one of the user's own templates.

        Returns:
            The text and where it was found.

        Raises:
            TemplateError: There is no such file; the message says where it was looked for.
        """
        text, path = read_file(file, self.places)
        return text, str(path)

    def partial(self, name: str, **context: Any) -> str:
        """Renders the partial `<name>.j2` of the dialect's folder.

        Args:
            name: The placeholder that it renders: `tools`, `search_results`, ...
            **context: Plain texts, numbers, dicts and lists. Texts are encoded as XML text.

        Raises:
            TemplateError: There is no such partial, it is wrong, or it lacks a value.
        """
        return self._compiled(name)(context)

    def _compiled(self, name: str) -> Partial:
        compiled = self._partials.get(name)
        if compiled is None:
            from orchestrator.prompts.partials import compile_partial

            text, source = self.read(f"{name}.j2")
            compiled = self._partials[name] = compile_partial(text, source)
        return compiled

    def step_messages(
        self, content: Sequence[Block], results: Sequence[Mapping[str, Any]]
    ) -> list[Message]:
        """One finished step of the loop, as messages of the scratchpad.

        Args:
            content: The reply's content blocks.
            results: What the calls returned, one a call: `id` (the tool-use id), `name` (the tool
                as the model named it), `text`, `error` (whether it is an error that the model
                should mend), and optionally `markup` (the text was made by a partial: its values
                are encoded already and its tags are meant).

        Returns:
            The assistant's message, then the user's message with the results, so that roles
            alternate whatever the reply was.
        """
        if self.protocol == "tool_use":
            said, told = steps.native_results(content, results)
        else:
            said = steps.text_blocks(content)
            told = [{"text": self._results(results)}]
        return [
            steps.origin_message("assistant", said or [{"text": steps.EMPTY}], "agent_scratchpad"),
            steps.origin_message("user", told, "agent_scratchpad"),
        ]

    def _results(self, results: Sequence[Mapping[str, Any]]) -> str:
        if any(result.get("markup") for result in results):
            from orchestrator.prompts.partials import Encoded

            results = [
                {**result, "text": Encoded(result["text"])} if result.get("markup") else result
                for result in results
            ]
        return self._compiled("function_results")({"results": results})

    def answer_message(self, content: Sequence[Block]) -> Message:
        """The last reply of a finished turn, as later turns see it in their history.

        Thinking and answer are kept, `<thinking>…</thinking><answer>…</answer>`, as recorded.
        """
        return steps.origin_message(
            "assistant", steps.answer_blocks(content), "conversation_history"
        )

    def question_message(self, text: str) -> Message:
        """The user's input of a finished turn, as later turns see it in their history."""
        return steps.origin_message("user", [{"text": text}], "conversation_history")


def bare_model_id(model_id: str) -> str:
    """The model's id without ARN and inference profile prefix, in lower case."""
    bare = model_id.lower()
    if bare.startswith("arn:"):
        bare = bare.rsplit("/", 1)[-1]
    return _PROFILE.sub("", bare, count=1) if _PROFILE.match(bare) else bare


def dialect_for(model_id: str, overrides: Path | None = None) -> str:
    """The name of the dialect for a model.

    The longest pattern that matches wins, the user's own dialects first; a model that no pattern
    names gets `tool-use`.

    Args:
        model_id: A Bedrock model id, inference profile id or ARN, or any other model's name.
        overrides: The user's own `templates/` folder.

    Raises:
        TemplateError: A `dialect.yaml` is wrong.
    """
    bare = bare_model_id(model_id)
    best, name = 0, DEFAULT
    for place in dialect_places(overrides):
        text, file = read_file("dialect.yaml", (place,))
        match = _longest_match(bare, _texts(read_yaml(text, file), "patterns", file))
        if match > best:
            best, name = match, place.folder.name
    return name


def _longest_match(bare: str, patterns: Sequence[str]) -> int:
    return max((len(p) for p in patterns if fnmatchcase(bare, p.lower())), default=0)


def load_dialect(name: str, overrides: Path | None = None, *, model_id: str = "") -> Dialect:
    """Loads a dialect.

    Args:
        name: The folder's name.
        overrides: The user's own `templates/` folder.
        model_id: The model it is for, when the dialect keeps settings for some models.

    Raises:
        TemplateError: There is no such dialect, or one of its files is wrong.
    """
    if not _NAME.fullmatch(name):
        raise TemplateError(f"{name!r} is not the name of a dialect: letters, digits, '-' and '_'")
    where = places(name, overrides)
    named = tuple(place for place in where if place.folder != overrides)
    if not any((place.folder / "dialect.yaml").is_file() for place in named):
        raise _no_dialect(name, overrides)
    text, file = read_file("dialect.yaml", named)
    settings = _Settings(read_yaml(text, file), file)
    dialect = Dialect(
        name=name,
        protocol=settings.protocol(),
        parser=settings.text("parser", "auto"),
        unknown_value=settings.text("unknown_value", ""),
        no_repeat=settings.flag("no_repeat"),
        stages=settings.stages(where),
        places=where,
        _models=settings.models(),
    )
    return dialect.for_model(model_id) if model_id else dialect


def _no_dialect(name: str, overrides: Path | None) -> TemplateError:
    from difflib import get_close_matches

    there = sorted({place.folder.name for place in dialect_places(overrides)})
    close = get_close_matches(name, there, n=1)
    meant = f": did you mean {close[0]!r}?" if close else "."
    return TemplateError(
        f"there is no dialect {name!r}{meant} There are {', '.join(there)}, and a folder with a "
        "dialect.yaml is one of your own",
        file=overrides and overrides / name,
    )


_MEMBERS = ("patterns", "protocol", "parser", "unknown_value", "no_repeat", "stages", "models")
_INFERENCE = ("maximumLength", "temperature", "topP", "topK", "stopSequences")


class _Settings:
    """Reads `dialect.yaml`, naming the file and the member in every error."""

    def __init__(self, data: Mapping[str, Any], file: Path) -> None:
        self.data, self.file = data, file
        self._known(data, _MEMBERS, "the dialect")

    def protocol(self) -> str:
        protocol = self.text("protocol", "")
        if protocol not in PROTOCOLS:
            raise self.error(f"'protocol' must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
        return protocol

    def text(self, member: str, default: str) -> str:
        value = self.data.get(member, default)
        if not isinstance(value, str):
            raise self.error(f"{member!r} must be a text, not {value!r}")
        return value

    def flag(self, member: str) -> bool:
        value = self.data.get(member, False)
        if not isinstance(value, bool):
            raise self.error(f"{member!r} must be true or false, not {value!r}")
        return value

    def stages(self, where: Sequence[Place]) -> dict[str, StageDefaults]:
        stages = {}
        for stage, entry in self._stage_entries(self.data, ("template", "enabled", "inference")):
            if not isinstance(entry.get("template"), str):
                raise self.error(f"the stage {stage} needs a 'template': a file's name")
            text, path = read_file(entry["template"], where)
            inference = self._inference(entry.get("inference"), stage)
            stages[stage] = StageDefaults(text, str(path), entry.get("enabled") is True, inference)
        return stages

    def models(self) -> tuple[Mapping[str, Any], ...]:
        entries = self.data.get("models", [])
        if not isinstance(entries, list):
            raise self.error("'models' must be a list")
        return tuple(self._model(entry) for entry in entries)

    def _model(self, entry: Any) -> Mapping[str, Any]:
        self._known(entry, ("patterns", "stages"), "an entry of 'models'")
        stages = {
            stage: self._inference(settings.get("inference"), stage)
            for stage, settings in self._stage_entries(entry, ("inference",))
        }
        return {"patterns": _texts(entry, "patterns", self.file), "stages": stages}

    def _stage_entries(
        self, data: Mapping[str, Any], members: Sequence[str]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        entries = data.get("stages", {})
        self._known(entries, STAGES, "'stages'")
        for stage, entry in entries.items():
            self._known(entry, members, f"the stage {stage}")
            yield stage, entry

    def _inference(self, settings: Any, stage: str) -> Mapping[str, Any]:
        settings = {} if settings is None else settings
        self._known(settings, _INFERENCE, f"the inference settings of {stage}")
        stops = settings.get("stopSequences", [])
        if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
            raise self.error(f"'stopSequences' of {stage} must be a list of texts")
        if len(stops) > 4:
            raise self.error(f"{stage} has {len(stops)} stop sequences; Bedrock allows 4")
        return dict(settings)

    def _known(self, data: Any, members: Sequence[str], what: str) -> None:
        if not isinstance(data, dict):
            raise self.error(f"{what} must be a mapping, not {data!r}")
        for member in data:
            if member not in members:
                raise self.error(f"{what} has no member {member!r}; it has {', '.join(members)}")

    def error(self, message: str) -> TemplateError:
        return TemplateError(message, file=self.file)


def _texts(data: Mapping[str, Any], member: str, file: Path) -> list[str]:
    value = data.get(member, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TemplateError(f"{member!r} must be a list of texts", file=file)
    return value
