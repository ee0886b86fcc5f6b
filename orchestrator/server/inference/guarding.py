"""A call of a model under a guardrail: what goes in, what comes out, and the trace of both.

What is checked is the text of the messages, and of tools' results in them; where a message has
`guardContent`, only that; of system prompts only `guardContent` (AWS: "Use a guardrail with the
Converse API"). Tool calls and thoughts are not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from orchestrator.guardrails import GuardedStream, Verdict
from orchestrator.server.guardrails.assessment import Assessment, assess
from orchestrator.server.guardrails.store import GuardrailStore, ServedGuardrail
from orchestrator.server.operations import Caller, StreamEvent

INTERVENED = "guardrail_intervened"
"""The stop reason of a reply that a guardrail blocked or masked (Bedrock: StopReason)."""

# Characters of a stream after which it is checked again.
_INTERVAL = 50
# Letters and digits that a guardrail which does not say it needs to be held back.
_REACH = 200
_NO_TOKENS = {
    "inputTokens": 0,
    "outputTokens": 0,
    "totalTokens": 0,
    "cacheReadInputTokens": 0,
    "cacheWriteInputTokens": 0,
}

Data = Mapping[str, Any]
Block = dict[str, Any]


class GuardedCall:
    """One call of a model, and what a guardrail says of it."""

    def __init__(self, served: ServedGuardrail, config: Data) -> None:
        self._served = served
        self._is_traced = config.get("trace", "disabled") != "disabled"
        self._is_late = config.get("streamProcessingMode") == "async"
        self._input: Assessment | None = None
        self._outputs: list[Assessment] = []
        self._model_output: list[str] = []

    @property
    def has_intervened(self) -> bool:
        """Whether anything was blocked or masked."""
        return any(it.has_findings for it in self._assessments())

    def _assessments(self) -> Iterator[Assessment]:
        if self._input is not None:
            yield self._input
        yield from self._outputs

    async def guard_input(self, params: Data) -> tuple[dict[str, Any], str | None]:
        """Converse's parameters with masks, and the message when nothing of them may be sent."""
        masked, groups = _copy_with_texts(params)
        texts = [[it["text"] for it in group] for group in groups]
        total = sum(map(len, _list_texts(params)))
        found = await asyncio.to_thread(assess, self._served, "INPUT", texts, total)
        self._input = found
        places = (it for group in groups for it in group)
        for place, text in zip(places, found.texts, strict=True):
            place["text"] = text
        return masked, found.message

    async def guard_answer(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Converse's output as it may be shown, with the trace."""
        content = answer["output"]["message"]["content"]
        texts = [it["text"] for it in content if "text" in it]
        found = await asyncio.to_thread(assess, self._served, "OUTPUT", [texts])
        self._add_output(found, "".join(texts))
        if not found.has_findings:
            return {**answer, **self.render_trace()}
        if found.message is not None:
            content = [{"text": found.message}]
        else:
            masked = iter(found.texts)
            content = [{"text": next(masked)} if "text" in it else it for it in content]
        message = {"role": "assistant", "content": content}
        reason = {"stopReason": INTERVENED, "output": {"message": message}}
        return {**answer, **reason, **self.render_trace()}

    def _add_output(self, found: Assessment, text: str) -> None:
        self._outputs.append(found)
        if found.has_findings:
            self._model_output.append(text)

    def block(self, message: str) -> dict[str, Any]:
        """Converse's output when the input is blocked, and no model is asked."""
        content = [{"text": message}]
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": INTERVENED,
            "usage": _NO_TOKENS,
            "metrics": {"latencyMs": 0},
            **self.render_trace(),
        }

    def render_trace(self) -> dict[str, Any]:
        """The member `trace`, if one was asked for (Bedrock: `ConverseTrace`)."""
        return {"trace": {"guardrail": self._render()}} if self._is_traced else {}

    def _render(self) -> dict[str, Any]:
        trace: dict[str, Any] = {}
        if self._input is not None:
            trace["inputAssessment"] = {self._served.id: self._input.findings}
        if self._outputs:
            trace["outputAssessments"] = {self._served.id: [it.findings for it in self._outputs]}
        if self._model_output:
            trace["modelOutput"] = self._model_output
        reasons = [it.reason for it in self._assessments()]
        acting = [it.reason for it in self._assessments() if it.has_findings]
        return {**trace, "actionReason": (acting or reasons)[-1]}

    # -- streams ---------------------------------------------------------------------------------

    async def guard_events(
        self, events: AsyncGenerator[StreamEvent, None]
    ) -> AsyncGenerator[StreamEvent, None]:
        """The events of ConverseStream as they may be shown.

        In the mode `sync` no text is sent before it was checked, and a little of it is held back.
        In the mode `async` it is sent as it comes and checked meanwhile: it is never masked, and
        what is blocked ends the text after some of it was shown.
        """
        text = self._begin_text()
        async with aclosing(events):
            # The empty first item is for who waits until the model has begun.
            yield "", {}
            async for name, members in events:
                if name == "messageStop":
                    changed = any(it.has_findings for it in self._outputs)
                    reason = INTERVENED if changed else members["stopReason"]
                    yield name, {**members, "stopReason": reason}
                elif name == "metadata":
                    yield name, {**members, **self.render_trace()}
                elif not text.blocked:
                    async for event in self._guard_block(text, name, members):
                        yield event
                    if name == "contentBlockStop" and not text.blocked:
                        text = self._begin_text()

    async def _guard_block(
        self, text: GuardedStream | _LateStream, name: str, members: Data
    ) -> AsyncGenerator[StreamEvent, None]:
        """The events that stand for one of a block; a text that is blocked ends the block."""
        index = members.get("contentBlockIndex", 0)
        piece = members["delta"].get("text") if name == "contentBlockDelta" else None
        shown = ""
        if piece is not None:
            shown = await asyncio.to_thread(text.feed, piece)
        elif name == "contentBlockStop" and text.text:
            shown = await asyncio.to_thread(text.finish)
            await self._note_text(text)
        if shown:
            yield _build_delta(index, shown)
        if piece is None:
            yield name, members
        elif text.blocked:
            await self._note_text(text)
            yield "contentBlockStop", {"contentBlockIndex": index}

    def _begin_text(self) -> GuardedStream | _LateStream:
        guardrail = self._served.guardrail
        if self._is_late:
            return _LateStream(self._check)
        return GuardedStream(
            self._check,
            _INTERVAL,
            reach=getattr(guardrail, "reach", _REACH),
            bounded=getattr(guardrail, "bounded", False),
        )

    def _check(self, text: str) -> Verdict:
        return self._served.guardrail.check(text, "OUTPUT")

    async def _note_text(self, text: GuardedStream | _LateStream) -> None:
        """Notes what a whole text was found to be."""
        found = await asyncio.to_thread(assess, self._served, "OUTPUT", [[text.text]])
        self._add_output(found, text.text)


class _LateStream:
    """Lets a text through as it comes, until a check says that it is blocked.

    The longer the text is, the more comes between two checks: together they read a few times it.
    """

    def __init__(self, check: Callable[[str], Verdict]) -> None:
        self.blocked = False
        self._check = check
        self._pieces: list[str] = []
        self._length = self._checked = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, piece: str) -> str:
        """Takes the next piece; gives what to show: it, or the message when the text is blocked."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length - self._checked < max(_INTERVAL, self._checked // 4):
            return piece
        return self._release(piece)

    def finish(self) -> str:
        """Ends the text; gives the message when it is blocked."""
        return "" if self.blocked else self._release("")

    def _release(self, piece: str) -> str:
        self._checked = self._length
        verdict = self._check(self.text)
        self.blocked = verdict.blocked
        return verdict.text if verdict.blocked else piece


def _build_delta(index: int, text: str) -> StreamEvent:
    return "contentBlockDelta", {"delta": {"text": text}, "contentBlockIndex": index}


async def stream_blocked(answer: Data) -> AsyncGenerator[StreamEvent, None]:
    """A blocked input's output as the events of ConverseStream, after an empty one."""
    (block,) = answer["output"]["message"]["content"]
    yield "", {}
    yield "messageStart", {"role": "assistant"}
    yield _build_delta(0, block["text"])
    yield "contentBlockStop", {"contentBlockIndex": 0}
    yield "messageStop", {"stopReason": answer["stopReason"]}
    members = ("usage", "metrics", "trace")
    yield "metadata", {name: answer[name] for name in members if name in answer}


# Texts of a request


def _copy_with_texts(params: Data) -> tuple[dict[str, Any], list[list[Block]]]:
    """The parameters anew, and what holds their texts that are checked, message by message."""
    messages = params.get("messages") or ()
    marked = any("guardContent" in it for message in messages for it in message["content"])
    groups: list[list[Block]] = []
    copied: dict[str, Any] = {**params}
    if params.get("system"):
        copied["system"] = _copy_blocks(params["system"], True, groups)
    copied["messages"] = [
        {**message, "content": _copy_blocks(message["content"], marked, groups)}
        for message in messages
    ]
    return copied, [group for group in groups if group]


def _copy_blocks(blocks: Sequence[Data], marked: bool, groups: list[list[Block]]) -> list[Block]:
    group: list[Block] = []
    groups.append(group)
    return [_copy_block(block, marked, group) for block in blocks]


def _copy_block(block: Data, marked: bool, group: list[Block]) -> Block:
    copied = dict(block)
    if "guardContent" in block and "text" in block["guardContent"]:
        text = dict(block["guardContent"]["text"])
        copied["guardContent"] = {"text": text}
        # Sources and queries are there for contextual grounding alone.
        if "guard_content" in (text.get("qualifiers") or ["guard_content"]):
            group.append(text)
    elif "text" in block and not marked:
        group.append(copied)
    elif "toolResult" in block and not marked:
        result = block["toolResult"]
        content = [_copy_block(it, marked, group) for it in result.get("content", ())]
        copied["toolResult"] = {**result, "content": content}
    return copied


def _list_texts(params: Data) -> Iterator[str]:
    """All texts of the messages and the system prompt."""
    lists = [params.get("system") or (), *(it["content"] for it in params.get("messages") or ())]
    for block in (block for blocks in lists for block in blocks):
        if "toolResult" in block:
            yield from (it["text"] for it in block["toolResult"].get("content", ()) if "text" in it)
        elif "text" in block:
            yield block["text"]
        elif "text" in block.get("guardContent", {}):
            yield block["guardContent"]["text"]["text"]


def begin_guarded(
    guardrails: GuardrailStore, caller: Caller, config: Data | None
) -> GuardedCall | None:
    """What guards a call with this `guardrailConfig`; `None` without one; blocks.

    Raises:
        OrchestratorError: The caller has no such guardrail.
        ValidationError: The configuration names no guardrail, or no version of it.
    """
    if not config:
        return None
    names = ("guardrailIdentifier", "guardrailVersion")
    served = guardrails.use(caller, *(config.get(name, "") for name in names))
    return GuardedCall(served, config)
