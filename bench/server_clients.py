"""Clients for load: threads of one process, each with a boto3 client of its own.

`python -m bench.server_clients '{"url": ..., ...}'`: prints `ready`, begins when a line comes, and
prints what came of every question as JSON. Ten questions make a session; each client has one
question at a time, and asks the next when it has the answer, or at its `pace`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import closing
from threading import Thread
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from bench.server_model import LOOKED_UP

AGENT_ID, ALIAS_ID = "LOADEDAGNT", "TSTALIASID"
TURNS = 10  # of a session


class Asked(NamedTuple):
    """A question and what came of it.

    Attributes:
        session: The session's id.
        token: What tells the question from all others.
        began: When it was asked, in seconds of the machine's monotonic clock.
        seconds: How long it took.
        answer: The answer; empty when there was none.
        error: Why there was none.
        retries: How often botocore itself tried again.
    """

    session: str
    token: str
    began: float
    seconds: float
    answer: str
    error: str
    retries: int


def questions(client: int, action: bool) -> Any:
    """A client's questions without end: session, token, text."""
    number = 0
    while True:
        for turn in range(TURNS):
            token = f"{client}-{number}-{turn}"
            ask = LOOKED_UP if action else "Tell me of"
            yield f"s-{client}-{number}", token, f"{ask} [[{token}]], please."
        number += 1


def client_of(url: str) -> Any:
    return boto3.client(
        "bedrock-agent-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"mode": "standard", "max_attempts": 3}),
    )


def _ask(client: Any, session: str, token: str, text: str) -> Asked:
    began = time.monotonic()
    answer, error, retries = "", "", 0
    try:
        told = client.invoke_agent(
            agentId=AGENT_ID, agentAliasId=ALIAS_ID, sessionId=session, inputText=text
        )
        retries = told["ResponseMetadata"]["RetryAttempts"]
        with closing(told["completion"]) as events:
            answer = b"".join(event["chunk"]["bytes"] for event in events).decode()
    except (BotoCoreError, ClientError, HTTPError, OSError) as failed:
        error = f"{type(failed).__name__}: {failed}"[:300]
    return Asked(session, token, began, time.monotonic() - began, answer, error, retries)


def _work(client: Any, number: int, given: dict[str, Any], told: list[Asked]) -> None:
    begin = time.monotonic()
    end, pace = begin + given["seconds"], given["pace"]
    due = begin + pace * number / given["of"]  # not all at the same moment
    for session, token, text in questions(number, given["action"]):
        if pace:
            time.sleep(max(due - time.monotonic(), 0))
            due = max(due + pace, time.monotonic())
        if time.monotonic() >= end:
            return
        told.append(_ask(client, session, token, text))


def main(given: dict[str, Any]) -> None:
    told: list[Asked] = []
    clients = [(client_of(given["url"]), number) for number in given["numbers"]]
    threads = [Thread(target=_work, args=(*each, given, told)) for each in clients]
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    json.dump({"cpu": used.ru_utime + used.ru_stime, "asked": told}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # 64 clients are taken apart slowly


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
