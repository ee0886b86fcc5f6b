"""Why an action failed: its own exception is the cause of the live error, and in no record."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whole_agents import BOTH, NATIVE, Family, agent, answer

from orchestrator import (
    ActionGroup,
    Agent,
    DependencyFailed,
    LimitExceeded,
    OrchestratorError,
    SQLiteStore,
    ValidationError,
)
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    ModelNotReady,
    ModelOutputError,
    ResourceNotFound,
    SessionConflict,
    ThrottlingError,
)
from orchestrator.testing import ScriptedModel

SECRET = "sk-1234"
FOLDER = "action_groups/orders"
AGENT = """
agentName: shop
instruction: You help people with whatever they have ordered.
actionGroups:
  - actionGroupName: orders
    {schema}actionGroupExecutor: {{{executor}}}
"""
SCHEMA = "functionSchema: {functions: [{name: fail, description: Fails.}]}\n    "
CALL = [{"toolUse": {"toolUseId": "t-1", "name": "orders__fail", "input": {}}}]


def invoke(agent: Agent) -> Any:
    return agent.invoke("Go", "s-1")


def ainvoke(agent: Agent) -> Any:
    return asyncio.run(agent.ainvoke("Go", "s-1"))


def stream(agent: Agent) -> Any:
    return list(agent.stream("Go", "s-1"))


@pytest.fixture(autouse=True)
def debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors keep what a handler raised; otherwise they do not, which attack 17 tests."""
    monkeypatch.setenv("ORCHESTRATOR_DEBUG", "1")


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke, stream])
Run = Callable[[Agent], Any]


def shop(root: Path, file: str, code: str, executor: str, schema: str = "") -> Path:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / file).write_text(code)
    text = AGENT.format(schema=schema, executor=f"{executor}: {FOLDER}/{file}")
    (root / "agent.yaml").write_text(text)
    return root


@EACH_WAY
@pytest.mark.parametrize("kind", ["lambda", "python", "async"])
def test_the_cause_is_the_handlers_own_exception(tmp_path: Path, kind: str, run: Run) -> None:
    if kind == "lambda":
        code = f"def lambda_handler(event, context):\n    raise KeyError('{SECRET}')\n"
        folder = shop(tmp_path, "handler.py", code, "lambda", SCHEMA)
        place = f"{FOLDER}/handler.py:2"
    else:
        how = "async def" if kind == "async" else "def"
        code = f"from orchestrator import action\n@action\n{how} fail():\n    {{}}['{SECRET}']\n"
        folder = shop(tmp_path, "actions.py", code, "python")
        place = f"{FOLDER}/actions.py:4"
    store = SQLiteStore(tmp_path / "sessions.sqlite")
    with pytest.raises(DependencyFailed) as caught:
        run(Agent.load(folder, model=ScriptedModel([CALL]), sessions=store))
    error = caught.value
    assert f"'orders::fail' raised KeyError at {place};" in error.message
    assert isinstance(error.__cause__, KeyError)
    assert place in "".join(traceback.format_exception(error))
    assert error.reply is not None
    (info,) = store.list()
    for told in (error.message, error.reply.trace, store.load(info.key)):
        assert SECRET not in json.dumps(told)


@BOTH
def test_the_cause_is_that_of_the_call_that_the_error_names(family: Family) -> None:
    def do(n: int) -> str:
        if n:
            raise ValueError(n)
        return "done"

    script = [family.calls(*[("work::do", {"n": n}) for n in range(3)]), answer("No.")]
    with pytest.raises(DependencyFailed) as caught:
        agent(family.model(script), [ActionGroup("work", [do])]).invoke("Go", "s-1")
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.args == (1,)


def test_a_failure_that_a_handler_reports_has_no_cause() -> None:
    from orchestrator.actions import ActionResult

    def do() -> ActionResult:
        return ActionResult("the shop is closed", "FAILURE")

    script = [NATIVE.calls(("work::do", {}))]
    with pytest.raises(DependencyFailed, match="the shop is closed") as caught:
        agent(NATIVE.model(script), [ActionGroup("work", [do])]).invoke("Go", "s-1")
    assert caught.value.__cause__ is None


@EACH_WAY
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (AccessDenied("no key"), AccessDenied),
        (ThrottlingError("slow down"), ThrottlingError),
        (ModelNotReady("it loads"), ModelNotReady),
        (ActionOutcomeUnknown("no answer"), ActionOutcomeUnknown),
        # What is wrong in the action is not the caller's argument, budget or session.
        (ValidationError("no such id"), DependencyFailed),
        (ResourceNotFound("not there"), DependencyFailed),
        (DefinitionError("no schema"), DependencyFailed),
        (SessionConflict("busy"), DependencyFailed),
        (LimitExceeded("too many", limit="tokens"), DependencyFailed),
        (ModelOutputError("cut", code="max_tokens"), DependencyFailed),
        (OrchestratorError("stopped"), DependencyFailed),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_the_turn_fails_with_what_the_action_failed_of(
    raised: OrchestratorError, kind: type[DependencyFailed], run: Run
) -> None:
    class Fails:
        def call(self, call: Any, context: Any) -> Any:
            raise raised

    functions = [{"name": "fail", "description": "Fails."}]
    group = ActionGroup("orders", functions=functions, executor=Fails())
    with pytest.raises(DependencyFailed) as caught:
        run(agent(ScriptedModel([CALL], NATIVE.model_id), [group]))
    error = caught.value
    assert type(error) is kind
    assert (error.message, error.resource) == (raised.message, "orders::fail")
    assert error.__cause__ is raised
    assert error.reply is not None and error.reply.stop_reason == "failure"


ENDINGS = """
import asyncio, sys
from orchestrator import action

@action
def leave():
    sys.exit(2)

@action
def lose():
    raise asyncio.CancelledError

async def leave_soon():
    await asyncio.sleep(0)
    sys.exit(2)

async def lose_inside():
    inside = asyncio.ensure_future(asyncio.sleep(60))
    inside.cancel()
    await inside
"""


@EACH_WAY
@pytest.mark.parametrize("how", ["threads", "loop"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("name", "raised"), [("leave", "SystemExit"), ("lose", "CancelledError")])
def test_an_action_that_leaves_ends_its_turn_and_nothing_else(
    tmp_path: Path, how: str, count: int, name: str, raised: str, run: Run
) -> None:
    code = ENDINGS
    if how == "loop":
        name = {"leave": "leave_soon", "lose": "lose_inside"}[name]
        code = code.replace("@action\n", "").replace("async def", "@action\nasync def")
    folder = shop(tmp_path, "actions.py", code, "python")
    uses = [
        {"toolUse": {"toolUseId": f"t-{n}", "name": f"orders__{name}", "input": {}}}
        for n in range(count)
    ]
    shopping = Agent.load(folder, model=ScriptedModel([uses, answer("Hello.")]))
    with pytest.raises(DependencyFailed, match=f"{name}' raised {raised} at {FOLDER}/actions.py:"):
        run(shopping)
    assert shopping.invoke("Hi", "s-1").text == "Hello."


def test_whoever_cancels_a_turn_cancels_the_action_in_it() -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def scenario() -> None:
        script = [NATIVE.calls(("work::wait", {}))]
        turn = agent(NATIVE.model(script), [ActionGroup("work", [wait])]).ainvoke("Go", "s-1")
        task = asyncio.create_task(turn)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
