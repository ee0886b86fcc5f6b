"""Model calls of a turn: what a model is asked, and the records of what it replies."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.engine.effects import CallModel
from orchestrator.engine.run.invocation import Run
from orchestrator.message import split_blocks
from orchestrator.models.base import ModelReply, ModelRequest, Usage, check_reply
from orchestrator.parsers.base import Parser
from orchestrator.parsers.orchestration import is_usual, refuse_quotation
from orchestrator.sessions import Record


def build_request(run: Run, effect: CallModel, now: int) -> ModelRequest:
    """Renders a model call that is made now."""
    stage = effect.stage
    bound, messages = run.replay.prompt(effect)
    call_format = stage.call_format
    if call_format is not None and (effect.excluded or effect.pending or effect.unsaid):
        call_format = replace(
            call_format,
            excluded=effect.excluded,
            pending=effect.pending,
            unsaid=effect.unsaid,
        )
    return ModelRequest(
        stage.stage,
        bound.system,
        messages,
        stage.tools,
        stage.inference,
        stage.additional,
        bound.raw_text,
        call_format,
        run.replay.turn.question,
        stage.tool_choice,
        None if run.deadline is None else max((run.deadline - now) / 1e9, 0.0),
        run.plan.limits.reply_bytes,
        run.plan.limits.iterations - effect.number - 1,
    )


def read_reply(
    run: Run, effect: CallModel, reply: ModelReply, began: int, parser: Parser | None = None
) -> Record:
    """The record of a reply: of one that streamed, by the parser that was fed its pieces.

    That of a whole reply has no `ended` if a parser is yet to complete it (`parse_reply`).
    """
    stage = effect.stage
    usual = type(reply) is ModelReply and type(reply.usage) is Usage
    if not usual or type(reply.content) is not list:
        check_reply(stage.model, reply)
    reply.content, text, uses = split_blocks(reply.content)
    record: Record = {
        "kind": "model",
        "stage": stage.stage,
        "model": stage.model.model_id,
        "content": reply.content,
        "stop": reply.stop_reason or "end_turn",
        "usage": reply.usage,
        "began": began,
    }
    if reply.stop_sequence is not None:
        record["stop_sequence"] = reply.stop_sequence
    if parser is not None:
        return parse_reply(run, record, parser)
    name = stage.loop_parser
    if name and run.sessions.lean and is_usual(text, uses, name):
        record["ended"] = run.now()
    return record


def parse_reply(run: Run, record: Record, parser: Parser) -> Record:
    """Adds to a reply's record what a parser makes of it, which may block."""
    parsed = parser.finish(record["content"])
    # What others wrote is no call of the model's, in no dialect.
    if parsed.written and (quoted := run.replay.find_quotation(parsed.written)):
        parsed = refuse_quotation(parsed, quoted)
    record["response"] = parsed.response
    if parsed.code:
        record["code"] = parsed.code
        record["raw"] = parsed.raw
    if parsed.notes:
        record["notes"] = list(parsed.notes)
    record["ended"] = run.now()
    return record
