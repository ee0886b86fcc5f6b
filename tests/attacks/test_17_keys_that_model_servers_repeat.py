"""Attack 17: a model's server that repeats the credentials which it was sent, in any spelling."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from credential_spellings import spell
from left_out import sampled
from model_servers import Answer, Loopback, aws_error, aws_stream, failure, json_answer, sse
from whole_agents import agent

from orchestrator import OrchestratorError
from orchestrator.models import BedrockModel, OpenAIModel
from orchestrator.models import openai as module
from orchestrator.models.embeddings import BedrockEmbedder, OpenAIEmbedder

KEY = 'Zq7+canary/T0ken="x9&y'
TOKEN = "IQoCANARYsession/Tok3n+" + "Wx7" * 200
SPELLINGS = [*spell(KEY)]


def check_is_absent(key: str, text: str) -> None:
    found = json.loads(json.dumps(text)).lower()
    for spelling in (key, quote(key, safe=""), base64.b64encode(key.encode()).decode()[:-4]):
        low = spelling.lower()
        leaks = [at for at in range(len(low) - 9) if low[at : at + 10] in found]
        assert not leaks, found
    assert key.encode().hex() not in found


def read_everything(error: BaseException, folder: Path) -> str:
    """All that is left of a failed turn: the error, its chain, its trace, the journal's file."""
    parts, one = [], error
    while one is not None:
        parts.append(f"{one!r} {one.__dict__}")
        one = one.__cause__ or one.__context__  # type: ignore[assignment]
    reply = getattr(error, "reply", None)
    parts.append(f"{reply} {reply and reply.trace}")
    for file in folder.glob("*.sqlite"):
        with sqlite3.connect(file) as journal:
            parts += map(str, journal.iterdump())
        journal.close()
    return "\n".join(parts)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def asleep(seconds: float) -> None:
        """The next try is made at once."""

    monkeypatch.setattr(module, "_sleep", lambda seconds: None)
    monkeypatch.setattr(module, "_asleep", asleep)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    yield


def run(asked: Any, way: str) -> Any:
    async def astreamed() -> Any:
        return [it async for it in asked.astream("Hi", "s-1")]

    if way == "invoke":
        return asked.invoke("Hi", "s-1")
    if way == "stream":
        return list(asked.stream("Hi", "s-1"))
    return asyncio.run(asked.ainvoke("Hi", "s-1") if way == "ainvoke" else astreamed())


def failed_turn(model: Any, way: str, folder: Path) -> str:
    asked = agent(model, sessions=folder / "s.sqlite")
    with pytest.raises(OrchestratorError) as failed:
        run(asked, way)
    return read_everything(failed.value, folder)


def echo(spelling: str, status: int) -> list[Answer]:
    text = spell(KEY)[spelling]
    return [
        json_answer({"error": {"message": f"Incorrect API key provided: {text}"}}, status),
        json_answer({"detail": [{text: f"not {text}"}]}, status),
        json_answer({text: text}, status),
        json_answer([text, {"key": text}], status),
    ]


STATUSES = [200, 400, 401, 403, 404, 418, 429, 500, 503]


@pytest.mark.parametrize(
    ("spelling", "status"),
    sampled(
        [*((spelling, 400) for spelling in SPELLINGS), *(("plain", it) for it in STATUSES)], every=3
    ),
)
def test_no_error_of_a_model_repeats_the_key(spelling: str, status: int, tmp_path: Path) -> None:
    for number, answer in enumerate(echo(spelling, status)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Loopback([answer]).running() as server:
            model = OpenAIModel("m", server.url, api_key=KEY)
            read = failed_turn(model, ("invoke", "ainvoke")[number % 2], folder)
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        check_is_absent(KEY, read)


@pytest.mark.parametrize(
    ("spelling", "way"),
    sampled([*((spelling, "stream") for spelling in SPELLINGS), ("plain", "astream")], every=3),
)
def test_no_error_within_a_stream_repeats_it(spelling: str, way: str, tmp_path: Path) -> None:
    text = spell(KEY)[spelling]
    begun = {"choices": [{"delta": {"content": "a"}}]}
    for number, code in enumerate([None, 400, 429, 500]):
        folder = tmp_path / str(number)
        folder.mkdir()
        answer = sse(begun, {"error": {"message": f"key {text}", "code": code, text: text}})
        with Loopback([answer]).running() as server:
            read = failed_turn(OpenAIModel("m", server.url, api_key=KEY), way, folder)
        check_is_absent(KEY, read)


def test_nor_does_one_of_an_embedding_server() -> None:
    for answer in echo("plain", 400):
        with Loopback([answer]).running() as server, pytest.raises(OrchestratorError) as failed:
            OpenAIEmbedder("m", server.url, api_key=KEY).embed(["text"])
        check_is_absent(KEY, repr(failed.value))


def test_nor_the_password_of_an_address(tmp_path: Path) -> None:
    answer = json_answer({"error": {"message": f"user:{KEY[:8]}-secret"}}, 400)
    with Loopback([answer]).running() as server:
        url = server.url.replace("//", f"//user:{quote(KEY[:8] + '-secret', safe='')}@")
        read = failed_turn(OpenAIModel("m", url), "invoke", tmp_path)
    assert "-secret" not in read


@pytest.mark.parametrize(
    ("spelling", "way"),
    sampled(
        [
            *((spelling, ("invoke", "stream")[at % 2]) for at, spelling in enumerate(SPELLINGS)),
            *(("plain", way) for way in ("invoke", "ainvoke", "stream", "astream")),
        ],
        every=3,
    ),
)
def test_no_error_of_bedrock_repeats_a_session_token(
    spelling: str, way: str, tmp_path: Path
) -> None:
    text = spell(TOKEN)[spelling]
    answers = [
        aws_error("ValidationException", f"The token {text} is wrong"),
        aws_error("AccessDeniedException", f"not for {text}", 403),
        aws_error(text[:60], text, 500),
    ]
    if way.endswith("stream"):
        answers.append(aws_stream(failure("validationException", f"The token {text}")))
    for number, answer in enumerate(answers):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Loopback([answer]).running() as server:
            model = BedrockModel(
                "anthropic.claude-3-haiku-v1:0",
                region="us-east-1",
                endpoint_url=server.url,
                max_attempts=1,
            )
            read = failed_turn(model, way, folder)
            assert server.asked[0].headers["x-amz-security-token"] == TOKEN
        check_is_absent(TOKEN, read)


def test_nor_the_request_id_of_a_gateway() -> None:
    answer = Answer(b"{}", 400, {"x-amzn-RequestId": f"r-{TOKEN}", "x-amzn-ErrorType": "X"})
    with Loopback([answer]).running() as server, pytest.raises(OrchestratorError) as failed:
        BedrockEmbedder(
            "amazon.titan-embed-text-v1", region="us-east-1", endpoint_url=server.url
        ).embed(["x"])
    check_is_absent(TOKEN, repr(failed.value))
