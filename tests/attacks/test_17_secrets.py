"""Attack 17: secrets in prompts, traces, errors, logs and journals. They are nowhere."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from whole_agents import BOTH, XML, Calls, Family, agent, answer, streamed

from orchestrator import ActionGroup, Agent, OrchestratorError, SQLiteStore, action
from orchestrator.actions import CallContext
from orchestrator.models import BedrockModel, OpenAIModel

DAYS = ("vacations::get_days", {"employee": "E-1"})
CLOSED = "http://127.0.0.1:9"  # nobody listens there


def chain(error: BaseException | None) -> list[str]:
    """Every text of an error: its own, its causes' and contexts', with their tracebacks."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error), *map(str, error.args), *getattr(error, "__notes__", [])]
        texts += [str(getattr(error, name, "")) for name in ("raw", "response", "kwargs")]
        texts += traceback.format_exception(error)
        error = error.__cause__ or error.__context__
    return texts


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG)
    return lambda: "\n".join([record.getMessage() for record in caplog.records] + [caplog.text])


@BOTH
def test_a_turn_shows_no_secret_to_anybody_but_its_actions(
    family: Family, canaries: Any, logs: Any, tmp_path: Path
) -> None:
    seen: list[str] = []

    @action
    def whoami(context: CallContext) -> str:
        """Who asks."""
        seen.append(context.session_attributes["token"])
        return "somebody"

    script = [family.calls(("me::whoami", {})), family.calls(DAYS), answer("Hi.")]
    model = family.model(script)
    store = SQLiteStore(tmp_path / "sessions.db")
    groups = [ActionGroup("me", [whoami]), *Calls().groups(ask_user=True)]
    prompts = {"POST_PROCESSING": {"promptState": "ENABLED"}}
    model._replies.append("<final_response>Hi.</final_response>")
    asked = agent(model, groups, sessions=store, prompts=prompts)
    attributes = {"token": canaries["session attribute"]}
    events, error = streamed(asked, "Who am I?", "s-1", session_attributes=attributes)
    reply = events[-1].reply
    assert (error, reply.text) == (None, "Hi.")
    assert seen == [canaries["session attribute"]]
    canaries.nowhere_in(
        "prompts", *[(one.system, one.messages, one.tools) for one in model.requests]
    )
    canaries.nowhere_in("trace", reply.trace, events)
    canaries.nowhere_in("reply", reply.as_dict(), repr(reply))
    canaries.nowhere_in("logs", logs())
    canaries.nowhere_in("agent", repr(asked), repr(asked.plan.identity))
    prompt = asked.render("ORCHESTRATION", "And now?", "s-1")
    canaries.nowhere_in("rendered prompt", prompt)
    (info,) = list(store.list())
    canaries.nowhere_in("list of sessions", info)


def test_the_journal_holds_session_attributes_and_no_other_secret(
    canaries: Any, tmp_path: Path
) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")
    asked = agent(XML.model([XML.calls(DAYS), answer("Hi.")]), Calls().groups(), sessions=store)
    attributes = {"token": canaries["session attribute"]}
    asked.invoke("Hi", "s-1", session_attributes=attributes)
    (info,) = list(store.list())
    records = store.load(info.key)
    assert canaries["session attribute"] in str(records)  # actions of later turns need it
    told = [record.pop("attributes", None) for record in records]
    canaries.nowhere_in("journal", records)
    assert {"token": canaries["session attribute"]} in told


@BOTH
def test_an_action_that_raises_a_secret_keeps_it_to_itself(
    family: Family, canaries: Any, logs: Any, tmp_path: Path
) -> None:
    @action
    def leak(context: CallContext) -> str:
        """Fails."""
        raise ValueError(f"cannot sign in with {context.session_attributes['token']}")

    store = SQLiteStore(tmp_path / "sessions.db")
    model = family.model([family.calls(("me::leak", {})), answer("Hi.")])
    asked = agent(model, [ActionGroup("me", [leak])], sessions=store)
    attributes = {"token": canaries["session attribute"]}
    with pytest.raises(OrchestratorError) as caught:
        asked.invoke("Hi", "s-1", session_attributes=attributes)
    error = caught.value
    # The developer's own exception is its cause, for a debugger; our words do not repeat it.
    canaries.nowhere_in("error", str(error), repr(error), error.args)
    canaries.nowhere_in("trace", error.reply.trace)  # type: ignore[union-attr]
    canaries.nowhere_in("logs", logs())
    asked.invoke("Go on", "s-1")
    canaries.nowhere_in("next prompt", model.requests[-1].messages)
    (info,) = list(store.list())
    records = store.load(info.key)
    for record in records:
        record.pop("attributes", None)
    canaries.nowhere_in("journal", records)


@pytest.mark.parametrize(
    "options",
    [
        {"session_attributes": {"token": None}},
        {"prompt_session_attributes": {"token": 5}},
        {"results": {"invocationId": "x", "returnControlInvocationResults": ["y"]}},
        {"conversation_history": [{}]},
    ],
)
def test_refused_options_are_not_repeated(options: dict[str, Any], canaries: Any) -> None:
    secret = canaries["session attribute"]
    given = {name: _with(value, secret) for name, value in options.items()}
    with pytest.raises(OrchestratorError) as caught:
        agent(XML.model([])).invoke("Hi", "s-1", **given)  # type: ignore[arg-type]
    canaries.nowhere_in("error", *chain(caught.value))


def _with(value: Any, secret: str) -> Any:
    # The secret beside what is wrong.
    if isinstance(value, dict):
        return {"fine": secret, **value}
    return [{"role": secret, "content": secret}, *value]


def test_bedrock_that_cannot_be_reached(canaries: Any, logs: Any, tmp_path: Path) -> None:
    model = BedrockModel(XML.model_id, endpoint_url=CLOSED, max_attempts=1)
    store = SQLiteStore(tmp_path / "sessions.db")
    asked = Agent("a", "You help.", model, sessions=store)
    attributes = {"token": canaries["session attribute"]}
    with pytest.raises(OrchestratorError) as caught:
        asked.invoke("Hi", "s-1", session_attributes=attributes)
    canaries.nowhere_in("error", *chain(caught.value))
    canaries.nowhere_in("trace", caught.value.reply.trace)  # type: ignore[union-attr]
    canaries.nowhere_in("model", repr(model), vars(model))
    # botocore's own loggers tell requests at DEBUG, with the key's id; ours must not.
    ours = [line for line in logs().splitlines() if "orchestrator" in line.split(":")[0]]
    canaries.nowhere_in("logs", *ours)


def test_an_openai_server_that_cannot_be_reached(canaries: Any, logs: Any) -> None:
    model = OpenAIModel("gpt-x", f"{CLOSED}/v1")
    with pytest.raises(OrchestratorError) as caught:
        Agent("a", "You help.", model).invoke("Hi", "s-1")
    canaries.nowhere_in("error", *chain(caught.value))
    canaries.nowhere_in("trace", caught.value.reply.trace)  # type: ignore[union-attr]
    canaries.nowhere_in("logs", logs())
    canaries.nowhere_in("model", repr(model))


def test_an_openai_key_in_a_spec_s_url_is_not_shown() -> None:
    secret = "canary-in-a-url-7f00"
    asked = Agent("a", "You help.", f"openai:gpt-x@http://user:{secret}@127.0.0.1:9/v1")
    with pytest.raises(OrchestratorError) as caught:
        asked.invoke("Hi", "s-1")
    assert secret not in "\n".join(chain(caught.value))
    assert secret not in str(caught.value.reply.trace)  # type: ignore[union-attr]
