"""`LocalModel` with the real runtime and the light model's weights."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import DependencyFailed
from orchestrator.message import AUTHOR, Message, Span, Text
from orchestrator.models import llama
from orchestrator.models.base import CallFormat, ModelReply, ModelRequest, OperationFormat
from orchestrator.models.local import LocalModel

pytestmark = pytest.mark.local("0.5b")

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string", "description": "Id, for example claim-12."}},
    "required": ["id"],
}
FORM = CallFormat(
    "tool_use", (OperationFormat("claims__get_claim", SCHEMA),), False, unknown_value="?"
)
SYSTEM = (
    "You look up insurance claims. To look one up, write\n<tool_call>\n"
    '{"name": "claims__get_claim", "arguments": {"id": "the id"}}\n</tool_call>'
)


def request(question: str, **changes: Any) -> ModelRequest:
    given: dict[str, Any] = {"inference": {"maximumLength": 12}, **changes}
    return ModelRequest("ORCHESTRATION", "", [Message("user", [{"text": question}])], **given)


def whole(model: LocalModel, asked: ModelRequest) -> tuple[list[str], ModelReply]:
    *pieces, reply = model.stream(asked)
    assert isinstance(reply, ModelReply)
    return [str(piece) for piece in pieces], reply


def test_a_reply_streams_in_pieces_and_ends_with_itself(light: LocalModel) -> None:
    pieces, reply = whole(light, request("Say hello."))
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text == light.complete(request("Say hello.")).text
    assert reply.usage.calls == 1 and reply.usage.output_tokens >= len(pieces)


@pytest.mark.exhaustive
def test_a_prompt_is_counted_as_it_is_when_it_is_answered(light: LocalModel) -> None:
    for question in ("Hi", "Grüße <|im_start|> " * 40, "word " * 10_000):  # the last is too long
        asked = request(question, inference={"maximumLength": 1})
        usage = light.complete(asked).usage
        assert light.count(asked) == usage.input_tokens + usage.cache_read_tokens > 0


@pytest.mark.exhaustive
def test_a_call_is_well_formed_whatever_the_model_thinks(light: LocalModel) -> None:
    asked = request("Look up claim-857.", call_format=FORM, inference={"maximumLength": 60})
    asked.system = SYSTEM
    reply = light.complete(asked)
    assert reply.stop_reason == "tool_use"
    (block,) = reply.content
    assert block["toolUse"]["name"] == "claims__get_claim"
    assert block["toolUse"]["input"] == {"id": "claim-857"}
    assert block["toolUse"]["toolUseId"].startswith("tooluse_")


@pytest.mark.exhaustive
def test_what_the_grammar_forces_of_a_call_is_not_decoded(light: LocalModel) -> None:
    asked = request("Look up claim-857.", call_format=FORM, inference={"maximumLength": 60})
    asked.system = SYSTEM
    quick = light.complete(asked)
    # Where a text could end the reply, every token is decoded.
    asked.inference = {"maximumLength": 60, "stopSequences": ["@@"]}
    slow = light.complete(asked)
    assert quick.content[0]["toolUse"]["input"] == slow.content[0]["toolUse"]["input"]
    assert quick.usage.output_tokens < slow.usage.output_tokens - 5


def test_an_id_that_nobody_gave_stays_unknown(light: LocalModel) -> None:
    asked = request("Look up a claim.", call_format=FORM, inference={"maximumLength": 60})
    asked.system = Text.of(SYSTEM, (Span(0, 0, len(SYSTEM), AUTHOR),))
    reply = light.complete(asked)
    assert reply.stop_reason == "tool_use"
    assert reply.content[0]["toolUse"]["input"] == {"id": "?"}


@pytest.mark.exhaustive
def test_a_call_goes_on_with_the_value_that_was_asked_for(light: LocalModel) -> None:
    pending = ("claims__get_claim", {"id": "?"})
    form = replace(FORM, grounded=True, pending=pending)
    asked = request("die 857", call_format=form, inference={"maximumLength": 60})
    asked.system = Text.of(SYSTEM, (Span(0, 0, len(SYSTEM), AUTHOR),))
    reply = light.complete(asked)
    assert reply.content[0]["toolUse"]["input"] == {"id": "claim-857"}


@pytest.mark.exhaustive
def test_without_operations_there_are_only_answers(light: LocalModel) -> None:
    form = CallFormat("tool_use", FORM.operations, excluded=frozenset({"claims__get_claim"}))
    pieces, reply = whole(light, request("Look up claim-857.", call_format=form))
    assert reply.text.startswith("<answer>")
    assert "".join(pieces) == reply.text


@pytest.mark.exhaustive
def test_what_was_evaluated_before_is_not_evaluated_again(light: LocalModel) -> None:
    asked = request("Say yes.")
    asked.system = "You answer with one word. " * 40
    light.complete(asked)
    again = request("Say no.")
    again.system = asked.system
    usage = light.complete(again).usage
    assert usage.cache_read_tokens > 200
    assert usage.input_tokens < 20


@pytest.mark.exhaustive
def test_a_question_cannot_write_chat_tokens(light: LocalModel) -> None:
    def tokens(question: str) -> int:
        usage = light.complete(request(question, inference={"maximumLength": 1})).usage
        return usage.input_tokens + usage.cache_read_tokens

    # As one token each they would add 20; as text each is several tokens.
    assert tokens("x" + "<|im_end|>" * 20) - tokens("x") >= 60


@pytest.mark.exhaustive
def test_the_length_and_the_context_are_bounded(light: LocalModel) -> None:
    _, reply = whole(light, request("Count to 100.", inference={"maximumLength": 5}))
    assert reply.stop_reason == "max_tokens"
    _, reply = whole(light, request("word " * 3000))
    assert reply.stop_reason == "model_context_window_exceeded"
    assert reply.content == []


@pytest.mark.exhaustive
def test_stop_sequences_stop(light: LocalModel) -> None:
    inference: Mapping[str, Any] = {"maximumLength": 60, "stopSequences": ["4"]}
    reply = light.complete(request("Count from 1 to 9, digits only.", inference=inference))
    assert "3" in reply.text and "4" not in reply.text


def test_a_bad_grammar_is_refused(light: LocalModel) -> None:
    with pytest.raises(DependencyFailed, match="failed to parse grammar"):
        light.complete(request("Hi", additional={"grammar": "root ::= ["}))


def test_closing_the_stream_stops_the_work(light: LocalModel) -> None:
    stream = light.stream(request("Write a long story.", inference={"maximumLength": 1500}))
    next(stream)
    (worker,) = [one for one in threading.enumerate() if one.name == "orchestrator-llama"]
    stream.close()  # type: ignore[attr-defined]
    worker.join(20)  # the story would take a minute
    assert not worker.is_alive()


@pytest.mark.exhaustive
def test_many_threads_share_one_model(light: LocalModel) -> None:
    other = LocalModel("light", context=2048, threads=1, batch_threads=1)
    loaded = len(llama._loaded)
    replies: list[str] = []

    def ask(model: LocalModel) -> None:
        replies.append(model.complete(request("Say hello.")).text)

    threads = [threading.Thread(target=ask, args=(model,)) for model in (light, other, light)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(llama._loaded) == loaded
    assert len(replies) == 3 and len(set(replies)) == 1


@pytest.mark.exhaustive
def test_the_event_loop_is_not_blocked(light: LocalModel) -> None:
    async def ask() -> list[Any]:
        return [item async for item in light.astream(request("Say hello."))]

    *pieces, reply = asyncio.run(ask())
    assert "".join(pieces) == reply.text


def test_nobody_else_can_use_the_runtimes_port(light: LocalModel) -> None:
    address = light._runtime(None)._server.listening_address
    for path in ("/props", "/v1/models", "/slots", "/"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(address + path, timeout=60)
        caught.value.close()
        assert caught.value.code in (401, 403, 404)


@pytest.mark.exhaustive
def test_loading_shows_how_far_it_is(light: LocalModel) -> None:
    seen: list[tuple[int, int, str]] = []
    model = LocalModel("light", context=512, threads=1, batch_threads=1)
    model.load(lambda *step: seen.append(step))
    assert seen[-1][0] == seen[-1][1] > 0
    assert seen[-1][2].startswith("loading ")


def test_the_weights_are_the_pinned_ones(light: LocalModel) -> None:
    file = light._file
    assert isinstance(file, Path) and file.with_name("LICENSE").is_file()
