"""Calls: from a tool name and values to the members of the parser-Lambda object."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.message import to_json
from orchestrator.parsers import codes
from orchestrator.support.safe_json import json_or

if TYPE_CHECKING:
    from orchestrator.parsers.text_calls import TextCall

_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"})
_KNOWLEDGE_BASE = "x_amz_knowledgebase_"
_MOST_NOTES = 20


def split_name(name: str) -> tuple[str, str, str] | None:
    """Verb (upper case, or empty), group and function or API of a tool name; `None` if malformed.

    Both grammars are read: `VERB::group::/path` and `group::function` (XML), and
    `VERB__group__api` and `group__function` (native tool use).
    """
    mark = "::" if "::" in name else "__"
    first, _, rest = name.partition(mark)
    verb = first.upper()
    if verb in _VERBS and mark in rest:
        first, _, rest = rest.partition(mark)
    else:
        verb = ""
    if rest[:1] == "_" and mark == "__":
        # A group's name may end with an underscore; a function's never begins with one.
        first, rest = first + "_", rest[1:]
    return (verb, first, rest) if first and rest else None


_SPECIAL = "*"
_USER = (_SPECIAL, "user", "askuser")
_SEND = (_SPECIAL, "AgentCommunication", "sendMessage")
_OUT = (_SPECIAL, "", "outOfDomain")
_SPECIALS = {
    **dict.fromkeys(("user::askuser", "user__askuser", "user_askuser"), _USER),
    "agentcommunication::sendmessage": _SEND,
    "agentcommunication__sendmessage": _SEND,
    "outofdomain": _OUT,
}

# What a user reads when the model says no more than that the request is out of its domain.
OUT_OF_DOMAIN = "Sorry, I am unable to assist you with this request."


@lru_cache(maxsize=1024)
def _split(name: str) -> tuple[str, str, str] | None:
    # A model's calls have few names: each is split once. The verb of those that are no actions
    # is `_SPECIAL`: they ask the user, send a message, or say that the request is out of domain.
    return _SPECIALS.get(name.lower()) or split_name(name)


class Calls:
    """Collects the calls of one reply.

    `code` is the reason code of the first call that could not be understood, `raw` that call, and
    `reprompt` the answer to the model. `user_messages` are the answer when nothing else is called.
    """

    __slots__ = (
        *("_actions", "_messages", "_question_id", "_questions", "_searches"),
        *("code", "notes", "raw", "reprompt", "user_messages"),
    )

    def __init__(self) -> None:
        self._actions: list[dict[str, Any]] = []
        self._searches: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._questions: list[str] = []
        self._question_id = ""
        self.user_messages: list[str] = []
        self.code = self.reprompt = self.raw = ""
        self.notes: list[str] = []

    def add_native(self, use: Any) -> None:
        """Adds a `toolUse` block's content; its JSON values keep their types."""
        use = use if isinstance(use, dict) else {}
        name, values = use.get("name"), use.get("input")
        if isinstance(values, str):  # some servers give the input as JSON text
            values = json_or(values, values) if values.strip() else {}
        if not isinstance(name, str) or not name.strip():
            self._fail(codes.NO_TOOL_NAME, codes.NAME_FORMAT, "")
        elif values is None or isinstance(values, dict):
            self._add(name.strip(), values or {}, use.get("toolUseId"), name, codes.NAME_FORMAT)
        else:
            self._fail(codes.BAD_INPUT, codes.INPUT_FORMAT, name)

    def add_text_call(self, tag: str, body: str, *, closed: bool) -> None:
        """Adds what an `<invoke>`, `<function_call>` or `<fnCall>` holds; its values are texts.

        `closed` says whether a tag ended it, and not the end of the reply.
        """
        # Most models call tools natively.
        from orchestrator.parsers.text_calls import read_fncall, read_function, read_invoke

        kind, raw = tag[:9].lower(), tag + body
        if kind == "<function":
            call = read_function(body, closed=closed)
            self._add_read(call, raw, codes.BAD_CALL, codes.FUNCTION_FORMAT)
        elif kind[:7] == "<fncall":
            for call in read_fncall(body, closed=closed):
                self._add_read(call, raw, codes.BAD_CALL, codes.FNCALL_FORMAT)
        else:
            self._add_read(read_invoke(tag, body), raw, codes.BAD_XML, codes.CALL_FORMAT)

    def _add_read(self, call: TextCall, raw: str, unreadable: str, malformed: str) -> None:
        self.notes += [note for note in call.notes if len(self.notes) < _MOST_NOTES]
        if not call.name:
            self._fail(codes.NO_TOOL_NAME, malformed, raw)
        elif call.values is None:
            self._fail(unreadable, malformed, raw)
        else:
            self._add(call.name, call.values, None, raw, malformed)

    def fail(self, raw: str) -> None:
        """Notes that call markup holds no call."""
        if raw[:7].lower() == "<fncall":
            self._fail(codes.BAD_CALL, codes.FNCALL_FORMAT, raw)
        else:
            self._fail(codes.BAD_XML, codes.CALL_FORMAT, raw)

    @property
    def empty(self) -> bool:
        """Whether nothing is called, asked or sent to another agent."""
        return not (self._actions or self._searches or self._messages or self._questions)

    def details(self) -> dict[str, Any]:
        """The `responseDetails` member; `invocationType` names the first kind that is there."""
        details: dict[str, Any] = {"invocationType": ""}
        if self._questions:
            # Several questions are asked as one.
            details["invocationType"] = "ASK_USER"
            details["agentAskUser"] = {"responseText": "\n".join(self._questions)}
            if self._question_id:
                details["agentAskUser"]["id"] = self._question_id
        for kind, member, calls in (
            ("AGENT_COLLABORATOR", "agentCollaboratorInvocations", self._messages),
            ("KNOWLEDGE_BASE", "agentKnowledgeBases", self._searches),
            ("ACTION_GROUP", "actionGroupInvocations", self._actions),
        ):
            if calls:
                details["invocationType"] = kind
                details[member] = calls
        return details

    def _fail(self, code: str, reprompt: str, raw: str) -> None:
        if not self.code:
            self.code, self.reprompt, self.raw = code, reprompt, raw

    def _add(self, name: str, values: dict[str, Any], id: Any, raw: str, malformed: str) -> None:
        parts = _split(name)
        if parts is None:
            self._fail(codes.BAD_PARTS, malformed, raw)
            return
        verb, group, function = parts
        if verb == _SPECIAL:
            if parts is _USER:
                self._ask(values, id, raw, malformed)
            elif parts is _SEND:
                self._send(values, id, raw, name)
            else:
                self.user_messages.append(_text(values.get("reason")) or OUT_OF_DOMAIN)
            return
        if group.startswith(_KNOWLEDGE_BASE):
            self._search(group[len(_KNOWLEDGE_BASE) :], name, values, id, raw)
            return
        self._actions.append(_action(verb, group, function, values, id))

    def _ask(self, values: dict[str, Any], id: Any, raw: str, malformed: str) -> None:
        wanted = "askuser" if malformed is codes.FUNCTION_FORMAT else "question"
        question = self._only(wanted, values)
        if question is None:
            self._fail(codes.MISSING_PARAM, _no_question(values, malformed), raw)
            return
        if not self._questions and id:
            self._question_id = str(id)
        self._questions.append(question)

    def _search(self, base: str, name: str, values: dict[str, Any], id: Any, raw: str) -> None:
        query = self._only("searchQuery", values)
        if query is None:
            text = codes.missing_parameter("searchQuery", name)
            self._fail(codes.MISSING_PARAM, text, raw)
            return
        search: dict[str, Any] = {"knowledgeBaseId": base}
        if id:
            search["id"] = str(id)
        search["searchQuery"] = {"value": query}
        self._searches.append(search)

    def _send(self, values: dict[str, Any], id: Any, raw: str, name: str) -> None:
        recipient, content = (_text(values.get(key)) for key in ("recipient", "content"))
        if not recipient or not content:
            missing = "content" if recipient else "recipient"
            self._fail(codes.MISSING_PARAM, codes.missing_parameter(missing, name), raw)
        elif recipient.lower() == "user":
            self.user_messages.append(content)
        else:
            message: dict[str, Any] = {"agentCollaboratorName": recipient}
            if id:
                message["id"] = str(id)
            message["input"] = {"text": content}
            self._messages.append(message)

    def _only(self, wanted: str, values: dict[str, Any]) -> str | None:
        # The one text that the call is about, also under another name.
        value = values.get(wanted)
        if value is None and len(values) == 1:
            name, value = next(iter(values.items()))
            if len(self.notes) < _MOST_NOTES:
                self.notes.append(f"the parameter {name!r} was taken for {wanted!r}")
        text = value if isinstance(value, str) else ""
        return text.strip() or None


def _text(value: Any) -> str:
    # A message may have been written as a JSON object.
    if value is None or isinstance(value, str):
        return (value or "").strip()
    return to_json(value)


def _no_question(values: dict[str, Any], malformed: str) -> str:
    if malformed is codes.FUNCTION_FORMAT:
        if values:
            return codes.missing_argument("askuser", "user::askuser")
        return codes.FUNCTION_ASK_USER_FORMAT
    if malformed is codes.NAME_FORMAT:
        return codes.missing_parameter("question", "user__askuser")
    if values or malformed is codes.FNCALL_FORMAT:
        return codes.missing_parameter("question", "user::askuser")
    return codes.ASK_USER_FORMAT


def _action(
    verb: str, group: str, function: str, values: dict[str, Any], id: Any
) -> dict[str, Any]:
    action: dict[str, Any] = {"actionGroupName": group}
    if verb:
        action["verb"] = verb
        action["apiName"] = function
    else:
        action["functionName"] = function
    if id:
        action["id"] = str(id)
    inputs = action["actionGroupInput"] = {}
    for key, value in values.items():
        inputs[key] = {"value": value}
    return action


def is_action(use: Any) -> bool:
    """Whether a native call is a well-formed one of an action; else `Calls` reads it."""
    if type(use) is not dict or type(use.get("input")) is not dict:
        return False
    name = use.get("name")
    return type(name) is str and names_action(name)


@lru_cache(maxsize=1024)
def names_action(name: str) -> bool:
    """Whether the name of a native call is well formed, and that of an action."""
    parts = _split(name)
    return parts is not None and not (parts[0] == _SPECIAL or parts[1].startswith(_KNOWLEDGE_BASE))


def build_action(use: Mapping[str, Any]) -> dict[str, Any]:
    """A native call of an action as a member of `actionGroupInvocations`."""
    parts = _split(use["name"])
    if parts is None:
        raise AssertionError("the name of a call was checked before")
    return _action(*parts, use["input"], use.get("toolUseId"))


def tool_uses(blocks: Any) -> tuple[list[str], list[Any]]:
    """The texts and the native tool calls of a reply's content blocks; others are passed over."""
    texts: list[str] = []
    uses: list[Any] = []
    for block in blocks:
        if not isinstance(block, dict):
            continue
        if "text" in block and isinstance(text := block["text"], str):
            texts.append(text)
        if "toolUse" in block and (use := block["toolUse"]) is not None:
            uses.append(use)
    return texts, uses
