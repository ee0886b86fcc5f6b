"""Recordings: what a model answered is answered again, and a changed prompt is shown."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from model_requests import TOOLS, ask, step, user

from orchestrator.errors import ModelOutputError, ResourceNotFound, ValidationError
from orchestrator.message import Message
from orchestrator.models import ModelReply, ModelRequest, RecordingModel, ReplayModel, ScriptedModel
from orchestrator.models.base import Usage
from orchestrator.models.recording import request_key

ANSWER = ModelReply(
    [
        {"text": "I look. é \u2028"},
        {"toolUse": {"toolUseId": "x", "name": "f", "input": {"a": [1, None]}}},
    ],
    "tool_use",
    Usage(5, 4, 3, 2, 1),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recordings" / "run.jsonl"


def recorder(path, *replies, **options):
    return RecordingModel(ScriptedModel(replies, "anthropic.claude-3-haiku", **options), path)


async def gathered(stream):
    return [item async for item in stream]


def test_a_recorded_reply_comes_back_whole_and_by_the_same_dialect(path):
    assert recorder(path, ANSWER).complete(ask()) == ANSWER
    replay = ReplayModel(path)
    assert replay.model_id == "anthropic.claude-3-haiku"
    assert replay.complete(ask()) == ANSWER
    assert asyncio.run(replay.acomplete(ask())) == ANSWER


def test_streams_come_back_in_their_pieces(path):
    model = recorder(path, "Three claims.", "Four.", chunk=5)
    recorded = list(model.stream(ask()))
    also = asyncio.run(gathered(model.astream(ask(user("another")))))
    replay = ReplayModel(path)
    assert recorded[:-1] == ["Three", " clai", "ms."]
    assert list(replay.stream(ask())) == recorded
    assert asyncio.run(gathered(replay.astream(ask(user("another"))))) == also
    assert replay.complete(ask()).text == "Three claims."


def test_a_reply_recorded_whole_can_be_streamed(path):
    recorder(path, "Three claims.").complete(ask())
    *pieces, reply = ReplayModel(path).stream(ask())
    assert pieces == ["Three claims."]
    assert reply.text == "Three claims."


def test_one_request_with_several_replies_gives_them_in_order_and_again(path):
    model = recorder(path, "one", "two")
    model.complete(ask())
    asyncio.run(model.acomplete(ask()))
    replay = ReplayModel(path)
    assert [replay.complete(ask()).text for _ in range(4)] == ["one", "two", "one", "two"]


def test_what_fails_or_is_broken_off_is_not_recorded(path):
    model = recorder(path, ModelOutputError("no"), "abcdef", "whole", chunk=2)
    with pytest.raises(ModelOutputError):
        model.complete(ask(user("fails")))
    stream = model.stream(ask(user("closed")))
    assert next(stream) == "ab"
    stream.close()
    model.complete(ask())
    assert len(path.read_text().splitlines()) == 1


def test_a_changed_prompt_is_shown_beside_the_nearest_recorded_one(path):
    model = recorder(path, "one", "two", "three")
    model.complete(ask(user("About something else\nentirely"), system="Other"))
    model.complete(ask(user("Which claims\nare open?"), *step(1), tools=TOOLS))
    model.complete(ModelRequest("PRE_PROCESSING", "Be brief.", [user("Which claims\nare open?")]))
    replay = ReplayModel(path)
    with pytest.raises(ResourceNotFound) as caught:
        replay.complete(ask(user("Which claims\nare closed?"), *step(1), tools=TOOLS))
    lines = caught.value.message.splitlines()
    assert "--- recorded (record 2)" in lines
    assert "-are open?" in lines
    assert "+are closed?" in lines
    assert " Which claims" in lines
    with pytest.raises(ResourceNotFound, match="record 2"):
        list(replay.stream(ask(user("Which claims"), *step(1), tools=TOOLS)))


def test_a_large_difference_is_cut(path):
    recorder(path, "one").complete(ask())
    with pytest.raises(ResourceNotFound) as caught:
        ReplayModel(path).complete(ask(user("x" * 10_000, *map(str, range(1000)))))
    assert len(caught.value.message) < 10_000
    assert "more lines" in caught.value.message


def test_a_stage_that_was_not_recorded_is_named(path):
    recorder(path, "one").complete(ask())
    with pytest.raises(ResourceNotFound, match="'POST_PROCESSING', only of ORCHESTRATION"):
        ReplayModel(path).complete(ModelRequest("POST_PROCESSING", "", [user("q")]))


def test_the_ids_of_calls_are_chance(path):
    def conversation(first, second):
        messages = [user("q")]
        for identity in (first, second):
            call = {"toolUseId": identity, "name": "f", "input": {}}
            result = {"toolUseId": identity, "content": [{"text": "r"}]}
            messages += [
                Message("assistant", [{"toolUse": call}]),
                Message("user", [{"toolResult": result}]),
            ]
        return ask(*messages)

    assert request_key(conversation("a", "b")) == request_key(conversation("c", "d"))
    assert request_key(conversation("a", "b")) != request_key(conversation("a", "a"))


@pytest.mark.parametrize(
    "other",
    [
        ask(user("Hello!")),
        ask(user("Hello"), system="Be long."),
        ask(user("Hello"), tools=TOOLS),
        ask(user("Hello"), inference={"temperature": 1}),
        ask(user("Hello"), additional={"seed": 1}),
        ask(user("Hel", "lo")),
        ModelRequest("POST_PROCESSING", "Be brief.", [user("Hello")]),
    ],
)
def test_whatever_the_model_sees_is_part_of_the_key(other):
    assert request_key(other) != request_key(ask(user("Hello")))
    assert request_key(ask(user("Hello"))) == request_key(ask(user("Hello")))


def test_any_text_survives(path):
    request = ask(user("half \ud800 pair, \x00, \u2028 and \x85"))
    recorder(path, "ok").complete(request)
    assert ReplayModel(path).complete(request).text == "ok"


def test_many_threads_append_whole_lines(path):
    model = recorder(path, *["x" * 5000] * 40)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: model.complete(ask(user(str(n)))), range(40)))
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 40
    replay = ReplayModel(path)
    assert all(replay.complete(ask(user(str(n)))).text == "x" * 5000 for n in range(40))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ResourceNotFound, match=r"nothing\.jsonl"):
        ReplayModel(tmp_path / "nothing.jsonl")


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '{"key": "k", "model_id": "m", "request": {"stage": "x"}, "reply": 3}'],
)
def test_a_line_that_is_no_record_is_named(path, line):
    recorder(path, "one").complete(ask())
    with path.open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(ValidationError, match=r"run\.jsonl:3"):
        ReplayModel(path)


def test_a_recording_is_of_one_model(path):
    recorder(path, "one").complete(ask())
    RecordingModel(ScriptedModel(["two"], "amazon.nova-lite-v1:0"), path).complete(ask())
    with pytest.raises(ValidationError, match=r"'amazon.nova-lite-v1:0', 'anthropic"):
        ReplayModel(path)


def test_an_empty_recording_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValidationError, match="of one model"):
        ReplayModel(tmp_path / "empty.jsonl")


def test_one_models_replies_of_a_recording_of_several(path):
    recorder(path, "Three.").complete(ask())
    other = RecordingModel(ScriptedModel(["Four."], "amazon.nova-pro-v1:0"), path)
    other.complete(ask())
    with pytest.raises(ValidationError, match="has to be of one model"):
        ReplayModel(path)
    assert ReplayModel(path, "anthropic.claude-3-haiku").complete(ask()).text == "Three."
    assert ReplayModel(path, "amazon.nova-pro-v1:0").complete(ask()).text == "Four."
    with pytest.raises(ResourceNotFound, match="no reply of the model 'x', only of 'amazon"):
        ReplayModel(path, "x").complete(ask())


def test_a_miss_names_the_first_difference(path):
    recorder(path, "Three.").complete(ask(user("Where is 1042?")))
    with pytest.raises(ResourceNotFound) as missed:
        ReplayModel(path).complete(ask(user("Where is 1043?")))
    told = "The first difference: 'Where is 1042?' was recorded, and 'Where is 1043?' asked:"
    assert told in str(missed.value)
