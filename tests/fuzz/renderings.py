"""Prompts: any template of any language, filled with any values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from hypothesis import strategies as st
from test_03_values_in_any_template import DEPENDING, HOSTILE, LANGUAGES, shape

from orchestrator import OrchestratorError
from orchestrator.message import Message
from orchestrator.prompts import PLACEHOLDERS, STAGES, Dialect, compile_template, load_dialect
from orchestrator.prompts.placeholders import FAMILIES

from . import mutations
from .batch import Property

# Without the two that stand for messages: those have their own place.
_NAMES = sorted({it.name for it in PLACEHOLDERS} - {"conversation_history", "agent_scratchpad"})
_PIECES = [f"${name}$" for name in _NAMES]
_HISTORY = [Message("user", [{"text": "Hi"}]), Message("assistant", [{"text": "Hello"}])]
_VALUES = st.dictionaries(
    st.sampled_from(_NAMES), st.sampled_from([*_PIECES, *mutations.ODD]) | HOSTILE, max_size=4
)


class Prompt(NamedTuple):
    """A template, and what fills it."""

    text: str
    stage: str
    family: str
    values: Mapping[str, str]


@st.composite
def _bodies(draw: st.DrawFn) -> str:
    """A JSON body, most of which compile."""
    piece = st.sampled_from([*_PIECES, "$question$", "$x$", "word ", "\n", '"', "{{x}}", "$"])
    text = st.lists(piece, min_size=1, max_size=4).map("".join)
    content = text | st.lists(st.fixed_dictionaries({"text": text}), min_size=1, max_size=3)
    roles = ["user", "assistant"] * 3
    messages = [
        {"role": role, "content": draw(content)} for role in roles[: draw(st.integers(1, 5))]
    ]
    if draw(st.booleans()):
        messages.append({"role": "assistant", "content": "$agent_scratchpad$"})
    body = {"messages": messages, **({"system": draw(text)} if draw(st.booleans()) else {})}
    return json.dumps(body, ensure_ascii=draw(st.booleans()))


def _rendered(prompt: Prompt, dialect: Dialect, values: Mapping[str, str]) -> tuple[Any, str]:
    template = compile_template(prompt.text, stage=prompt.stage, dialect=dialect)
    bound = template.bind(values, _HISTORY)
    messages = bound.messages()
    texts = [[block["text"] for block in message["content"]] for message in messages]
    roles = [(message["role"], len(message["content"])) for message in messages]
    return roles, json.dumps([str(bound.system), texts], ensure_ascii=False)


def _values_stay_values(prompt: Prompt) -> None:
    dialect = load_dialect(prompt.family)
    values = {name: value for name, value in prompt.values.items() if value}
    marks = {name: f"\ue000{place}\ue001" for place, name in enumerate(values)}
    try:
        roles, text = _rendered(prompt, dialect, values)
    except OrchestratorError:
        return
    expected_roles, expected = _rendered(prompt, dialect, marks)
    assert roles == expected_roles
    # A text-completion model's prompt has turns of its own, whose marks no value may form.
    if dialect.protocol != "text" and prompt.text.lstrip().startswith("{"):
        for name, mark in marks.items():
            value = json.dumps(values[name], ensure_ascii=False)[1:-1]
            expected = expected.replace(mark, value.replace("\ue000", "\ue002"))
        assert text.replace("\ue000", "\ue002") == expected.replace("\ue000", "\ue002")


def _only_typed_errors(prompt: Prompt) -> None:
    try:
        _rendered(prompt, load_dialect(prompt.family), prompt.values)
    except OrchestratorError as error:
        assert str(error)


class Document(NamedTuple):
    """A template of another language, and a value."""

    name: str
    text: str
    value: str


@st.composite
def _documents(draw: st.DrawFn) -> Document:
    name = draw(st.sampled_from(sorted(LANGUAGES)))
    _, front, pieces, written = LANGUAGES[name]
    text = "".join(draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=12)))
    return Document(name, front + text.replace("X", written), draw(HOSTILE))


def _values_change_no_document(given: Document) -> None:
    language = LANGUAGES[given.name][0]
    made = shape(given.text, language, given.value)
    expected = shape(given.text, language, "harmless")
    refused = [it for it in (made, expected) if isinstance(it, Exception)]
    if len(refused) == 1:
        assert any(one in str(refused[0]) for one in DEPENDING), refused[0]
    elif not refused:
        assert made == expected


def _any_document_is_read_or_refused(given: Document) -> None:
    # `shape` gives the errors of ours and raises all others.
    shape(given.text, LANGUAGES[given.name][0], given.value)


def _shipped() -> list[str]:
    """The text of every template that is shipped."""
    dialects = [load_dialect(family) for family in FAMILIES]
    texts = {it.template for dialect in dialects for it in dialect.stages.values()}
    return sorted(texts)


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of templates of all languages."""
    stages, families = st.sampled_from(STAGES), st.sampled_from(FAMILIES)
    shipped = mutations.texts(_shipped(), _PIECES)
    wrecks = st.sampled_from(sorted(LANGUAGES)).flatmap(
        lambda name: st.builds(
            Document,
            st.just(name),
            mutations.texts(
                [LANGUAGES[name][1] + "".join(LANGUAGES[name][2]).replace("X", LANGUAGES[name][3])],
                LANGUAGES[name][2],
            ),
            HOSTILE,
        )
    )
    yield [
        Property(
            "values", st.builds(Prompt, _bodies(), stages, families, _VALUES), _values_stay_values
        ),
        Property(
            "shipped", st.builds(Prompt, shipped, stages, families, _VALUES), _values_stay_values
        ),
        Property("documents", _documents(), _values_change_no_document),
        Property("wrecks", wrecks, _any_document_is_read_or_refused),
    ]
