"""A dialect: what a family of models understands, stored as a folder of files.

`templates/<dialect>/` holds `dialect.yaml` (settings), one template a stage and the partials.
The user's own `templates/` folder may hold a file of the same name, which then wins, and whole
dialects of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import TemplateError
from orchestrator.message import Block, Message
from orchestrator.prompts import steps
from orchestrator.prompts.markers import USUAL_MARKERS, Markers
from orchestrator.prompts.placeholders import family_of
from orchestrator.prompts.settings import StageDefaults, read_settings, texts
from orchestrator.prompts.steps import is_step, to_plain_message
from orchestrator.prompts.template_files import (
    Place,
    dialect_places,
    get_shipped_folder,
    read_file,
    read_yaml,
)

if TYPE_CHECKING:
    from orchestrator.prompts.partials import Partial

# The dialect of models that no pattern names.
DEFAULT = "tool-use"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[0-9]+)?")
_PROFILE = re.compile(r"[a-z]{2,6}(?:-gov)?\.(?=[a-z0-9]+\.)")


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What a family of models understands.

    Attributes:
        family: The shipped dialect that it is or extends: what AWS documents is known of those.
        protocol: How calls are written: `xml` tags in the text, native `tool_use` blocks, or
            `text` for raw text prompts.
        parser: The parser that reads the replies.
        unknown_value: A text that may stand for a parameter's value that the user did not give.
        no_repeat: Whether an identical call is not carried out twice in a turn.
        places: Where its files are looked for, best first.
        markers: What opens a turn in its raw texts, and so may not stand in a value.
    """

    name: str
    family: str
    protocol: str
    parser: str
    unknown_value: str
    no_repeat: bool
    stages: Mapping[str, StageDefaults]
    places: tuple[Place, ...]
    markers: Markers
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

    def step_messages(
        self, content: list[Block], results: Sequence[Mapping[str, Any]]
    ) -> list[Message]:
        """One finished step of the loop, as messages of the scratchpad.

        Args:
            content: The reply's content blocks.
            results: One a call: `id` (the tool-use id), `name` (the tool as the model named it),
                `text`, `error` (the model should mend it), and optionally `markup` (a partial made
                the text: its values are encoded already and its tags are meant).
        """
        if self.protocol == "tool_use":
            assistant, user = steps.native_results(content, results)
        else:
            assistant = steps.text_blocks(content)
            user = [{"text": self._results(results)}]
        # Roles alternate even after an empty reply: Converse refuses two neighbours of one role.
        return [
            Message("assistant", assistant or [{"text": steps.EMPTY}], "agent_scratchpad"),
            Message("user", user, "agent_scratchpad"),
        ]

    def _results(self, results: Sequence[Mapping[str, Any]]) -> str:
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

    The model's id is one of Bedrock, of an inference profile, an ARN, or any other name;
    `overrides` is the user's own `templates/` folder.

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


@cache
def _read_shipped_patterns() -> tuple[tuple[str, list[str]], ...]:
    return tuple(_read_patterns(place) for place in dialect_places(get_shipped_folder()))


def _read_patterns(place: Place) -> tuple[str, list[str]]:
    text, file = read_file("dialect.yaml", (place,))
    return place.folder.name, texts(read_yaml(text, file), "patterns", file)


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
    settings = read_settings(name, overrides)
    if settings is None:
        raise _unknown_dialect_error(name, overrides)
    find = settings.find_file
    protocol = find("protocol").protocol()
    return Dialect(
        name=name,
        family=family_of(settings.lineage, protocol),
        protocol=protocol,
        parser=find("parser").text("parser", "auto"),
        unknown_value=find("unknown_value").text("unknown_value"),
        no_repeat=find("no_repeat").flag("no_repeat"),
        stages=settings.stages(),
        places=settings.places,
        markers=Markers(find("turn_markers").texts("turn_markers") or USUAL_MARKERS),
        _models=find("models").models(),
    )


def _unknown_dialect_error(name: str, overrides: Path | None) -> TemplateError:
    from difflib import get_close_matches

    own = dialect_places(overrides) if overrides else []
    there = sorted({place.folder.name for place in (*own, *dialect_places(get_shipped_folder()))})
    close = get_close_matches(name, there, n=1)
    meant = f": did you mean {close[0]!r}?" if close else "."
    return TemplateError(
        f"there is no dialect {name!r}{meant} There are {', '.join(there)}, and a folder with a "
        "dialect.yaml is one of your own",
        file=overrides and overrides / name,
    )
