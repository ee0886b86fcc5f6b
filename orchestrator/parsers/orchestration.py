"""The ORCHESTRATION stage: calls, questions to the user, or the final response.

What the service does, by recordings and documentation:

- Native tool calls, or a `<function_calls>` later than any `<answer>`, are calls; else the reply
  is an answer.
- The answer is the text after `<answer>`, trimmed. Stop sequences have usually cut `</answer>`,
  `</invoke>` and `</function_calls>`. Where they did not, nothing after `</answer>` counts but
  calls, as if they had. A second `<answer>` inside an answer is dropped and its text stays: it has
  been streamed by then.
- A reply without such tags is the answer itself, without its thinking.
- The rationale is the thinking; without it, the text before a call or before `<answer>`; without
  that, what a reasoning model thought (`reasoningContent`).
- Where tools are native (`tool_use`), text is never a call: a model that quotes what somebody wrote
  would call it. A reply of call markup and nothing else is written again, natively.

Values in `actionGroupInput` are `{"value": ...}`: texts from XML, JSON values with their own types
from native tool calls (Bedrock's contract has texts; the action's schema decides later).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from orchestrator.message import Block, text_of
from orchestrator.parsers import codes
from orchestrator.parsers.base import ANSWER, CALL, Parsed
from orchestrator.parsers.calls import (
    OUT_OF_DOMAIN,
    Calls,
    build_action,
    is_action,
    names_action,
    tool_uses,
)
from orchestrator.parsers.scanner import Piece, Scanner

# The parsers that expect native tool calls.
_NATIVE = ("tool_use", "auto")

# A reply of call markup and nothing else, where tools are native: how it begins, and a call's end.
_WRITTEN = re.compile(
    r"(?:```\w{0,16}\s{0,16})?(?:<tools>\s{0,16})?<(?:function_calls\b|__function="
    r"|(?:invoke|fncall|function_call)(?:\s[^<>]{0,256})?>\s{0,128}[<{\[\w])",
    re.IGNORECASE | re.ASCII,
)
_WRITTEN_END = re.compile(r"</(?:function_calls?|invoke|fncall|__function)\s{0,8}>", re.I | re.A)
_WRITTEN_MORE = re.compile(r"<(?:invoke|function_call|fncall|__function)", re.I | re.A)

# What of a text beside native calls is no text before them.
_BEFORE_CALL = re.compile(r"<(?:answer|function_calls?|__function)\b", re.IGNORECASE | re.ASCII)

# What may decide a reply whose thinking was not closed.
_LATE = re.compile(
    r"<(?:(answer)(?:[ \t\r\n][^<>]{0,256})?>"
    r"|function_calls(?:[ \t\r\n][^<>]{0,256})?>(?=[ \t\r\n]{0,128}<invoke)"
    r"|function_call(?:[ \t\r\n][^<>]{0,256})?>(?=[ \t\r\n]{0,128}[A-Za-z0-9_-]{1,128}(?:::|[(]))"
    r"|fncall>(?=[ \t\r\n]{0,128}[<{\[A-Za-z0-9])"
    r"|__function=[^<> \t\r\n]{1,256}>)",
    re.IGNORECASE | re.ASCII,
)


class Orchestration:
    """Parses one orchestration reply; both call protocols are understood."""

    __slots__ = ("_blocks", "_scanner", "name")

    blocking: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._blocks: Sequence[Block] = ()
        self._scanner: Scanner | None = None

    @property
    def pieces(self) -> Sequence[Piece]:
        """What each piece of the text was taken for, when the text was fed."""
        return self._scanner.pieces if self._scanner is not None else ()

    @property
    def feed(self) -> Callable[[str], Sequence[tuple[str, str]]]:
        """Takes the next piece; see `orchestrator.parsers.base.Parser.feed`."""
        # The scanner's own, for whoever keeps it: one call less for each token.
        if self._scanner is None:
            self._scanner = Scanner(f"ORCHESTRATION {self.name}")
        return self._scanner.feed

    @property
    def _fed_scanner(self) -> Scanner | None:
        return self._scanner if self._scanner is not None and self._scanner.length else None

    def finish(self, blocks: Sequence[Block] = ()) -> Parsed:
        """Ends the reply; see `orchestrator.parsers.base.Parser.finish`."""
        texts, uses = tool_uses(blocks)
        self._blocks = blocks
        scanner = self._fed_scanner
        if uses:
            return self._parse_native("".join(texts) if scanner is None else scanner.close(), uses)
        if scanner is None:
            usual = _split_usual("".join(texts))
            if usual is not None:
                head, answer = usual
                return _build_finish(_usual_rationale(head, blocks), {"responseText": answer}, ())
            scanner = Scanner(f"ORCHESTRATION {self.name}")
            for text in texts:
                scanner.feed(text)
        return self._parse_text(scanner)

    def _parse_text(self, scanner: Scanner) -> Parsed:
        text = scanner.close()
        found = scanner
        if not scanner.verdict:
            found = _inside_thinking(scanner, text, self.name) or scanner
        thinking = (
            rationale_of(text, found.start, self._blocks)
            if found.verdict
            else thinking_of(text, len(text)) or _reasoning_of(self._blocks)
        )
        if found.verdict == CALL:
            return self._parse_text_calls(text, thinking, found)
        if found.verdict == ANSWER:
            return _parse_answer(thinking, found)
        if self.name == "tool_use" and _is_written_call(answer := scanner.outside(text)):
            return _build_failure(
                thinking, codes.WRITTEN_CALL, tuple(scanner.notes), codes.WRITTEN_FORMAT, answer
            )
        return _parse_plain(scanner, text, thinking)

    def _parse_native(self, text: str, uses: list[Any]) -> Parsed:
        thinking = _rationale_before_calls(text, self._blocks)
        if _is_plain(text, self.name) and all(map(is_action, uses)):
            actions = [build_action(use) for use in uses]
            details = {"invocationType": "ACTION_GROUP", "actionGroupInvocations": actions}
            return Parsed(_build_response({"rationale": thinking, "responseDetails": details}))
        calls = Calls()
        for use in uses:
            calls.add_native(use)
        if self.name not in _NATIVE:
            calls.notes.append("native tool calls in an XML dialect")
        if "<function_call" in text:
            calls.notes.append("calls in the text beside native ones were ignored")
        if "<__function" in text:
            calls.notes.append("markup of a call beside native tool use was removed")
        return _build_result(
            calls, thinking, self._read_answer(text) if calls.user_messages else ""
        )

    def _read_answer(self, text: str) -> str:
        # The answer that the text holds beside a message to the user.
        if self._fed_scanner is None:
            self.feed(text)
        return "".join(self._scanner.answer) if self._scanner is not None else ""

    def _parse_text_calls(self, text: str, thinking: str, found: Scanner) -> Parsed:
        # `found` may have read only the end of the text.
        shift = len(text) - found.length
        calls = Calls()
        calls.notes += found.notes
        if found.invokes and self.name not in ("auto", shown := grammar_of(found.invokes[0].tag)):
            calls.notes.append(f"calls were written in the grammar of the parser {shown!r}")
        written = []
        for invoke in found.invokes:
            body = text[shift + invoke.start : shift + invoke.end]
            written.append(_words_of(invoke.tag, body))
            calls.add_text_call(invoke.tag, body, closed=invoke.closed)
            if calls.code:
                break
        if not calls.code and calls.empty and not calls.user_messages:
            calls.fail(text[found.start :])
        parsed = _build_result(calls, thinking, "".join(found.answer))
        if not calls.code:
            parsed.written = tuple(written)
        return parsed


def _words_of(tag: str, body: str) -> str:
    # What makes it this call, and no other one. A call without markup in it is in many sentences:
    # there the tag counts, too.
    return body if "<" in body and "::" not in tag and "__" not in tag else tag + body


def grammar_of(tag: str) -> str:
    """The parser whose grammar has the tag that opened a call."""
    tag = tag.lower()
    if tag.startswith("<function_call") and not tag.startswith("<function_calls"):
        return "function_call"
    return "fncall" if tag.startswith("<fncall") else "xml"


def _is_written_call(text: str) -> bool:
    if not _WRITTEN.match(text):
        return False
    end = len(text)
    for found in _WRITTEN_END.finditer(text):
        end = found.end()
    rest = text[end:].lstrip().removeprefix("</tools>").strip("` \t\r\n")
    return not rest or _WRITTEN_MORE.match(rest) is not None


def is_usual(text: str, uses: Sequence[dict[str, Any]], name: str) -> bool:
    """Whether a whole reply is as models usually write it.

    It has native calls of actions, and nothing beside them that is to be noted; or thinking, the
    answer, and no other tag. `read_usual` says then what it means.

    Args:
        text: The reply's text, as `orchestrator.message.split_blocks` gives it.
        uses: Its tool uses, likewise.
        name: The parser.
    """
    if not uses:
        return _split_usual(text) is not None
    for use in uses:
        if type(use["input"]) is not dict or not names_action(use["name"]):
            return False
    return _is_plain(text, name)


def read_usual(blocks: Sequence[Block]) -> tuple[str, str]:
    """The rationale of a usual reply, and its answer, which is empty if it has calls."""
    text, calls = "", False
    for block in blocks:
        if "text" in block:
            text += block["text"]
        elif "toolUse" in block:
            calls = True
    if calls:
        return _rationale_before_calls(text, blocks), ""
    head, _, rest = text.partition("<answer>")
    return _usual_rationale(head.strip(), blocks), rest.partition("</answer>")[0].strip()


def usual_answer(blocks: Sequence[Block]) -> str:
    """The answer of a usual reply without calls."""
    return text_of(blocks).partition("<answer>")[2].partition("</answer>")[0].strip()


def _is_plain(text: str, name: str) -> bool:
    # Nothing in the text beside native calls has to be noted.
    return name in _NATIVE and "<function_call" not in text and "<__function" not in text


def _split_usual(text: str) -> tuple[str, str] | None:
    # What is before the answer's tag, and the answer; `None` for a reply that is not usual. The
    # scanner reads these the same, at seven times the cost.
    head, opened, rest = text.partition("<answer>")
    if not opened:
        return None
    head = head.strip()
    if "<" in head and not (
        head.startswith("<thinking>") and head.endswith("</thinking>") and head.count("<") == 2
    ):
        return None
    answer, _, after = rest.partition("</answer>")
    if "<" in answer or "<" in after or not (answer := answer.strip()):
        return None
    return head, answer


def _usual_rationale(head: str, blocks: Sequence[Block]) -> str:
    return head[10:-11].strip() if "<" in head else _reasoning_of(blocks) or head


def _rationale_before_calls(text: str, blocks: Sequence[Block]) -> str:
    thinking = thinking_of(text, len(text))
    if thinking:
        return thinking
    ended = _BEFORE_CALL.search(text)
    return rationale_of(text, ended.start() if ended else len(text), blocks)


def _parse_answer(thinking: str, found: Scanner) -> Parsed:
    final: dict[str, Any] = {"responseText": "".join(found.answer)}
    if not found.answer:
        return _build_failure(thinking, codes.NO_ANSWER, tuple(found.notes))
    if found.parts:
        final["citations"] = {"generatedResponseParts": answer_parts(found)}
    return _build_finish(thinking, final, tuple(found.notes))


def _parse_plain(scanner: Scanner, text: str, thinking: str) -> Parsed:
    answer = _read_out_of_domain(scanner.outside(text))
    if thinking and answer[:8] == "Thought:":  # the prefill of Nova's prompts, written again
        answer = answer[8:].lstrip()
    if answer:
        scanner.notes.append("no answer tag: the text without its thinking is the answer")
        return _build_finish(thinking, {"responseText": answer}, tuple(scanner.notes))
    code = codes.NO_ANSWER if text.strip() else codes.EMPTY
    return _build_failure(thinking, code, tuple(scanner.notes))


def _read_out_of_domain(answer: str) -> str:
    # Nova's prompts have it say `outOfDomain(reason="...")` (recorded); the user reads the reason.
    if not (answer.startswith("outOfDomain(") and answer.endswith(")")):
        return answer
    reason = answer[len("outOfDomain(") : -1].strip()
    name, equals, value = reason.partition("=")
    if equals and name.strip() == "reason":
        reason = value.strip()
    if len(reason) > 1 and reason[0] == reason[-1] and reason[0] in "\"'":
        reason = reason[1:-1].strip()
    return reason or OUT_OF_DOMAIN


def _inside_thinking(scanner: Scanner, text: str, name: str) -> Scanner | None:
    # Thinking that was never closed, or that wraps the whole reply, may hold the decision.
    if scanner.unclosed < 0 and scanner.outside(text):
        return None
    start, in_calls = -1, False
    for found in _LATE.finditer(text, max(scanner.unclosed, 0)):
        if found[1]:
            start, in_calls = found.start(), False
        elif not in_calls and name != "tool_use":
            start, in_calls = found.start(), True
    if start < 0:
        return None
    inner = Scanner(f"ORCHESTRATION {name}")
    inner.feed(text[start:])
    inner.close()
    inner.start = start
    inner.notes.append("the thinking was never closed before the answer or calls")
    return inner


def answer_parts(found: Scanner) -> list[dict[str, Any]]:
    """The answer's parts with their sources, as `generatedResponseParts`.

    The parts' texts, joined by one space, are the response's text; parts without text are left
    out. An answer that was not written in parts has none.
    """
    if not found.parts:
        return []
    parts = []
    ends = [start for start, _ in found.parts[1:]] + [len(found.answer)]
    for (start, sources), end in zip(found.parts, ends, strict=True):
        text = "".join(found.answer[start:end]).strip()
        if text:
            parts.append({"text": text, "references": [{"sourceId": one} for one in sources]})
    return parts


def _build_response(member: dict[str, Any]) -> dict[str, Any]:
    # Written out, because every reply of the loop has one.
    return {
        "messageVersion": "2.0",
        "promptType": "ORCHESTRATION",
        "orchestrationParsedResponse": member,
    }


def _build_result(calls: Calls, thinking: str, answer: str = "") -> Parsed:
    if calls.user_messages and not calls.code and calls.empty:
        # Messages to the user are the answer; what stood in an answer tag was streamed before.
        text = "\n\n".join(filter(None, (answer, *calls.user_messages)))
        return _build_finish(thinking, {"responseText": text}, tuple(calls.notes))
    if calls.user_messages:
        calls.notes.append("a message to the user beside other calls was not sent")
    notes = tuple(calls.notes)
    if not calls.code:
        member = {"rationale": thinking, "responseDetails": calls.details()}
        return Parsed(_build_response(member), "", notes)
    member = {"rationale": thinking, "parsingErrorDetails": {"repromptResponse": calls.reprompt}}
    return Parsed(_build_response(member), calls.code, notes, calls.raw)


def _build_finish(thinking: str, final: dict[str, Any], notes: tuple[str, ...]) -> Parsed:
    details = {"invocationType": "FINISH", "agentFinalResponse": final}
    return Parsed(_build_response({"rationale": thinking, "responseDetails": details}), "", notes)


def _build_failure(
    thinking: str,
    code: str,
    notes: tuple[str, ...],
    reprompt: str = codes.NO_REPLY,
    raw: str = "",
) -> Parsed:
    member = {"rationale": thinking, "parsingErrorDetails": {"repromptResponse": reprompt}}
    return Parsed(_build_response(member), code, notes, raw)


def refuse_quotation(parsed: Parsed, quoted: str) -> Parsed:
    """A reply that calls by quoting what others wrote; `quoted` is that call."""
    thinking = parsed.response["orchestrationParsedResponse"]["rationale"]
    notes = (*parsed.notes, "a call that the model had read elsewhere was not carried out")
    return _build_failure(thinking, codes.QUOTED_CALL, notes, codes.QUOTATION, quoted)


# Thinking is greedy: everything from the first `<thinking>` to the last `</thinking>` before the
# answer or the calls, with whatever the model wrote in between (recorded from the service).
# Without an opening tag, as after a prefill, it begins with the text; without a closing tag it
# goes on to the end.
_OPEN = re.compile(r"<(?:thinking|think|scratchpad)(?:[ \t\r\n][^<>]{0,256})?>", re.I | re.A)
_CLOSE = re.compile(r"</(?:thinking|think|scratchpad)[ \t\r\n]{0,256}>", re.I | re.A)


def span_of(text: str, end: int) -> tuple[int, int] | None:
    """Where the thinking in `text[:end]` begins and ends; `None` when there is none."""
    # The usual case is one exact pair of tags, found without a regular expression.
    if text.startswith("<thinking>"):
        close = text.rfind("</thinking>", 10, end)
        if close >= 0 and text.find("</", close + 1, end) < 0:
            return 10, close
    opened = _OPEN.search(text, 0, end)
    closes = list(_CLOSE.finditer(text, 0, end))
    if opened is None:
        return (0, closes[-1].start()) if closes else None
    start = opened.end()
    if closes and closes[0].start() < opened.start():
        start = 0
    if closes and closes[-1].start() >= start:
        return start, closes[-1].start()
    return start, end


def rationale_of(text: str, end: int, blocks: Sequence[Block]) -> str:
    """Why the model decides as it does at `end` of its text, trimmed; empty when it does not say.

    Without thinking tags it is what a reasoning model thought, else the text before the decision.
    """
    return thinking_of(text, end) or _reasoning_of(blocks) or text[:end].strip()


def _reasoning_of(blocks: Sequence[Block]) -> str:
    thoughts = []
    for block in blocks:
        if isinstance(block, dict) and isinstance(block.get("reasoningContent"), dict):
            text = (block["reasoningContent"].get("reasoningText") or {}).get("text")
            thoughts.append(text if isinstance(text, str) else "")
    return "".join(thoughts).strip()


def thinking_of(text: str, end: int) -> str:
    """The thinking in `text[:end]`, trimmed; empty when there is none."""
    span = span_of(text, end)
    return text[span[0] : span[1]].strip() if span else ""
