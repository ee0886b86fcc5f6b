"""The parts of a trace that tell what a model was asked, and what it answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from orchestrator.engine.decisions import NO_ANSWER
from orchestrator.engine.effects import CallModel, Converse
from orchestrator.engine.plan import AWS_TRACE, INLINE_AGENT, Plan
from orchestrator.engine.run.replay import Replay
from orchestrator.engine.trace.aws_text import prompt_to_aws_text
from orchestrator.engine.trace.parts import PartWriter
from orchestrator.message import Message, text_of
from orchestrator.models.raw_reply import find_claude, raw_reply
from orchestrator.parsers.orchestration import read_usual
from orchestrator.prompts.placeholders import (
    KNOWLEDGE_BASE_RESPONSE_GENERATION,
    ORCHESTRATION,
    POST_PROCESSING,
    PRE_PROCESSING,
)
from orchestrator.sessions import Record

_ENCODED: Callable[[Message], str] = attrgetter("json_text")


class ModelCallParts(PartWriter):
    """Writes the parts about a turn's model calls."""

    def __init__(
        self,
        plan: Plan,
        session_id: str,
        started: int,  # nanoseconds since 1970
        replay: Replay,
        chain: Sequence[str] = (),
        name: str = "",
    ) -> None:
        super().__init__(plan, session_id, started, replay.turn.start.request_id, chain, name)
        self._replay = replay
        self._aws = AWS_TRACE in plan.features.aws_compat
        self._held: list[dict[str, Any]] = []

    def _model_input(self, effect: CallModel, at: int, outcome: Record) -> dict[str, Any]:
        stage = effect.stage
        entry: dict[str, Any] = {
            "text": self._prompt_text(effect),
            "type": stage.stage,
            "foundationModel": outcome.get("model") or stage.model.model_id,
            "inferenceConfiguration": dict(stage.inference),
            "promptCreationMode": stage.creation_mode,
            "parserMode": "OVERRIDDEN" if stage.parser_name else "DEFAULT",
        }
        if stage.parser_name:
            entry["overrideLambda"] = stage.parser_name
        if self._aws:
            self._drop_members(entry)
        if stage.stage == ORCHESTRATION:
            return self._step(at, "modelInvocationInput", entry)
        return self._stage_part(stage.stage, at, "modelInvocationInput", entry)

    def _drop_members(self, entry: dict[str, Any]) -> None:
        # What the service leaves out (recorded).
        if entry["promptCreationMode"] == entry["parserMode"] == "DEFAULT":
            del entry["promptCreationMode"], entry["parserMode"]
        if self._plan.agent_id == INLINE_AGENT:
            del entry["inferenceConfiguration"]
        if entry["type"] == KNOWLEDGE_BASE_RESPONSE_GENERATION:
            del entry["foundationModel"]

    def _prompt_text(self, effect: CallModel) -> str:
        bound, messages = self._replay.prompt(effect)
        if bound.raw_text:
            return text_of(messages[0]["content"])
        if self._aws:
            return self._aws_prompt_text(effect, bound.system, messages)
        system = bound.system.json_text
        listed = ",".join(map(_ENCODED, messages))
        return f'{{"system":{system},"messages":[{listed}]}}'

    def _aws_prompt_text(self, effect: CallModel, system: str, messages: Sequence[Message]) -> str:
        stage = effect.stage
        if stage.stage == POST_PROCESSING:
            return ""  # recorded
        if stage.stage == KNOWLEDGE_BASE_RESPONSE_GENERATION:  # recorded: the template's own text
            return str(system) or text_of(messages[0]["content"])
        claude = bool(find_claude(stage.model.model_id))
        return prompt_to_aws_text(system, messages, claude=claude)

    def _model_output(self, effect: CallModel, record: Record) -> list[dict[str, Any]]:
        stage = effect.stage.stage
        ended = record["ended"]
        metadata = self._metadata(record, f"{stage}-{effect.number}")
        usage = record["usage"]
        metadata["usage"] = {"inputTokens": usage[0], "outputTokens": usage[1]}
        entry: dict[str, Any] = {
            "rawResponse": {"content": self._raw_response(effect, record, metadata)},
            "metadata": metadata,
        }
        for block in record["content"]:
            if "reasoningContent" in block:  # what a reasoning model thought
                if text := block["reasoningContent"].get("reasoningText"):
                    entry["reasoningContent"] = {"reasoningText": text}
                    break
        if stage != ORCHESTRATION:
            self._add_parsed_response(entry, stage, record["response"])
            return [self._stage_part(stage, ended, "modelInvocationOutput", entry)]
        parts = [self._step(ended, "modelInvocationOutput", entry)]
        if not isinstance(effect, Converse):
            self._add_decision(parts, record)
        return parts

    def _raw_response(self, effect: CallModel, record: Record, metadata: dict[str, Any]) -> str:
        """A model's reply: its text in text protocols, elsewhere its provider's JSON (recorded)."""
        if not isinstance(effect, Converse) and effect.stage.dialect.protocol != "tool_use":
            return text_of(record["content"])
        return raw_reply(
            record.get("model") or effect.stage.model.model_id,
            record["content"],
            record["stop"],
            record["usage"],
            request_id=metadata["clientRequestId"],
            milliseconds=metadata["totalTimeMs"],
            stop_sequence=record.get("stop_sequence"),
            padded=self._aws,
        )

    def _add_parsed_response(
        self, entry: dict[str, Any], stage: str, parsed: dict[str, Any]
    ) -> None:
        if stage == PRE_PROCESSING:
            verdict = parsed.get("preProcessingParsedResponse") or {}
            rationale = verdict.get("rationale") or ""
            if self._aws:
                rationale = rationale.replace("\n", "\\n")  # recorded: as two characters
            valid = bool(verdict.get("isValidInput"))
            entry["parsedResponse"] = {"isValid": valid, "rationale": rationale}
        elif stage == POST_PROCESSING:
            final = parsed.get("postProcessingParsedResponse") or {}
            entry["parsedResponse"] = {"text": final.get("responseText") or ""}

    def _add_decision(self, parts: list[dict[str, Any]], record: Record) -> None:
        ended = record["ended"]
        rationale, answer = _read_decision(record)
        if rationale:
            parts.append(self._step(ended, "rationale", {"text": rationale}))
        if answer is not None and record["stop"] not in NO_ANSWER:
            entry = {"text": answer, "metadata": self._operation_metadata(ended)}
            seen = {"finalResponse": entry, "type": "FINISH"}
            finish = self._step(ended, "observation", seen)
            if self._plan.guardrail is not None and self._plan.post_processing is None:
                self._held.append(finish)  # until the guardrail has seen it, as recorded
            else:
                parts.append(finish)


def _read_decision(record: Record) -> tuple[str, str | None]:
    # Why the model decided, and its answer, if it gave one.
    if "response" not in record:
        rationale, answer = read_usual(record["content"])
        return rationale, answer or None
    parsed = record["response"]["orchestrationParsedResponse"]
    details = parsed.get("responseDetails") or {}
    # As the turn does: it goes by the type alone, also where a journal is damaged.
    is_answer = details.get("invocationType") == "FINISH"
    final = details["agentFinalResponse"]["responseText"] if is_answer else None
    return parsed.get("rationale") or "", final
