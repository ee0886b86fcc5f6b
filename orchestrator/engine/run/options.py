"""The options of an invocation, in Python's and in Bedrock's spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from orchestrator.engine.run.input import Input
from orchestrator.errors import ValidationError
from orchestrator.support.spelling import to_camel


class Options(TypedDict, total=False):
    """Options of one invocation."""

    # Added to the session's attributes, for actions; they never reach a prompt
    session_attributes: Mapping[str, str]
    # Attributes of this turn; they reach prompts and actions
    prompt_session_attributes: Mapping[str, str]
    # Results of a return of control, from `reply.return_control.answer(...)`
    results: Mapping[str, Any] | None
    # Messages (`role`, `content` with text blocks) to begin a new session with
    conversation_history: Sequence[Mapping[str, Any]]
    # Ends the session with the turn. A turn that waits for its caller ends when it has gone on, or
    # when another question gives it up; it need not be said again then
    end_session: bool
    # Whose memory the session belongs to, for an agent that remembers: what is kept of it reaches
    # the prompts, and the session is summarised when it ends
    memory_id: str
    # Retrieval configurations of this turn, by knowledge base id (Bedrock: `retrievalConfiguration`
    # of `knowledgeBaseConfigurations`)
    knowledge_bases: Mapping[str, Mapping[str, Any]]
    # Files that come with the question: paths, or mappings, see
    # `orchestrator.engine.input_files.read_files`. The model reads those for `CHAT`, its programs
    # those for `CODE_INTERPRETER`
    files: Sequence[str | PathLike[str] | Mapping[str, Any]]
    # A UUID that names this invocation: the same one again in the session gets the answer that is
    # there, or goes on with the turn, and never asks a second time
    request_id: str
    # How many earlier turns the prompts have (Bedrock: `previousConversationTurnsToInclude`)
    previous_turns: int | None
    # Whether the prompts leave out what the model thought in earlier turns (Bedrock:
    # `excludePreviousThinkingSteps`)
    exclude_thinking: bool
    # After how many characters the guardrail checks an answer that streams (Bedrock:
    # `applyGuardrailInterval`)
    apply_guardrail_interval: int | None
    # Bedrock's `sessionState` of InvokeAgent as it is. An option of the same meaning wins over its
    # member
    session_state: Mapping[str, Any]
    inline_session_state: Mapping[str, Any]  # the same, as InvokeInlineAgent calls it
    # Bedrock's `promptCreationConfigurations` as it is
    prompt_creation_configurations: Mapping[str, Any]
    # Bedrock's `streamingConfigurations`; `streamFinalResponse` says nothing here, where
    # `Agent.stream` streams
    streaming_configurations: Mapping[str, Any]


_OPTIONS = Options.__annotations__.keys()
_MEMBERS = {"knowledge_bases": "retrieval", "apply_guardrail_interval": "guard_interval"}
"""Options that `Input` has under another name."""

_STATE = {
    "sessionAttributes": "session_attributes",
    "promptSessionAttributes": "prompt_session_attributes",
    "invocationId": "invocationId",
    "returnControlInvocationResults": "returnControlInvocationResults",
    "files": "files",
    "conversationHistory": "conversation_history",
    "knowledgeBaseConfigurations": "knowledge_bases",
}
_OBJECTS: Mapping[str, Mapping[str, str]] = {
    "session_state": _STATE,
    "inline_session_state": {key: it for key, it in _STATE.items() if key[:9] != "knowledge"},
    "prompt_creation_configurations": {
        "previousConversationTurnsToInclude": "previous_turns",
        "excludePreviousThinkingSteps": "exclude_thinking",
    },
    "streaming_configurations": {
        "applyGuardrailInterval": "apply_guardrail_interval",
        "streamFinalResponse": "",
    },
}
"""Bedrock's objects: their members, and the options that these mean."""


_MAY_BLOCK = frozenset(
    (
        *("memory_id", "memoryId", "files"),
        *("session_state", "sessionState", "inline_session_state", "inlineSessionState"),
    )
)


def may_block(options: Options) -> bool:
    """Whether reading these options may wait: for files, or for a memory's sessions."""
    return not _MAY_BLOCK.isdisjoint(options)


def read_options(question: str, session_id: str, options: Options) -> Input:
    """What the caller gave, with its files read.

    Raises:
        TypeError: There is no such option.
        ValidationError: A member of one of Bedrock's objects is unknown or wrong, or a file is.
        ResourceNotFound: There is no such file.
        DependencyFailed: A file could not be read from S3.
    """
    given: Mapping[str, Any] = options
    if not given.keys() <= _OPTIONS:
        given = _in_python_spelling(given)
    if any(name in given for name in _OBJECTS):
        given = _flatten_options(given)
    members = {_MEMBERS.get(name, name): it for name, it in given.items() if it is not None}
    if members.get("files"):
        from orchestrator.engine.input_files import read_files

        members["files"] = read_files(members["files"])
    return Input(question, session_id, more=True, **members)


def _in_python_spelling(options: Mapping[str, Any]) -> dict[str, Any]:
    known = {to_camel(name): name for name in _OPTIONS}
    found = {known.get(name, name): value for name, value in options.items()}
    if unknown := found.keys() - _OPTIONS:
        if not unknown.isdisjoint(("enableTrace", "enable_trace")):
            raise TypeError("'enableTrace' is not needed: every reply has its trace")
        raise TypeError(f"unknown options {sorted(unknown)}; there are {', '.join(_OPTIONS)}")
    if len(found) < len(options):
        raise TypeError("an option is given in both spellings; remove one")
    return found


def _flatten_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that Bedrock's objects mean; those that are given themselves win."""
    if "session_state" in options and "inline_session_state" in options:
        raise ValidationError("give either session_state or inline_session_state, not both")
    found: dict[str, Any] = {}
    for name, members in _OBJECTS.items():
        if options.get(name) is not None:
            found.update(_read_object(name, options[name], members))
    id, results = found.pop("invocationId", None), found.pop("returnControlInvocationResults", None)
    if id is not None or results is not None:
        found["results"] = {"invocationId": id, "returnControlInvocationResults": results}
    own = {key: it for key, it in options.items() if key not in _OBJECTS and it is not None}
    return {**found, **own}


def _read_object(name: str, given: Any, members: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for member, value in _read_members(name, given, members).items():
        if member == "conversationHistory":
            value = _read_members(f"{name}.conversationHistory", value, ("messages",)).get(
                "messages", ()
            )
        elif member == "knowledgeBaseConfigurations":
            value = _retrieval(f"{name}.knowledgeBaseConfigurations", value)
        if value is not None and members[member]:
            found[members[member]] = value
    return found


def _retrieval(place: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, list | tuple):
        raise ValidationError(f"{place} must be a list")
    found = {}
    for one in given:
        base = _read_members(
            f"an item of {place}", one, ("knowledgeBaseId", "retrievalConfiguration")
        )
        if len(base) < 2:
            raise ValidationError(
                f"an item of {place} has a knowledgeBaseId and a retrievalConfiguration"
            )
        found[str(base["knowledgeBaseId"])] = base["retrievalConfiguration"]
    return found


def _read_members(place: str, given: Any, members: Any) -> dict[str, Any]:
    """The members of one of Bedrock's objects, in Bedrock's spelling."""
    if not isinstance(given, Mapping):
        raise ValidationError(f"{place} must be a mapping, not {type(given).__name__}")
    found = {to_camel(name) if isinstance(name, str) else name: it for name, it in given.items()}
    if unknown := [name for name in found if name not in members]:
        raise ValidationError(
            f"{place} has no member {unknown[0]!r}; its members are {', '.join(members)}"
        )
    return found
