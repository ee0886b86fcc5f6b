"""Attack 17: what a handler or a model of one's own raised, in the chain of the turn's error."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from whole_agents import NATIVE, agent

from orchestrator import ActionGroup, OrchestratorError, TemplateError
from orchestrator.models import Model, ModelRequest
from orchestrator.prompts.languages import read_template
from orchestrator.support.user_code import hide_causes

SECRET = "canary-0f-the-handler"


@pytest.fixture(autouse=True)
def no_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCHESTRATOR_DEBUG", raising=False)


class Failing(Model):
    model_id = NATIVE.model_id

    def complete(self, request: ModelRequest) -> Any:
        raise build_chain()


class Executor:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def call(self, call: Any, context: Any) -> Any:
        raise self.error


def build_chain() -> Exception:
    """An exception that holds the secret in itself, in its cause, and in what was handled."""
    try:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise KeyError(SECRET) from RuntimeError(SECRET)
    except KeyError as error:
        return error


def build_own() -> OrchestratorError:
    """An error of the tree, raised while another one was handled."""
    try:
        raise KeyError(SECRET)
    except KeyError:
        try:
            raise OrchestratorError("closed")
        except OrchestratorError as error:
            return error


def list_chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    left = [error]
    while left:
        one = left.pop()
        if one is not None and one not in found:
            found.append(one)
            left += [one.__cause__, one.__context__]
    return found


def invoke(asked: Any) -> Any:
    return asked.invoke("Hi", "s-1")


def ainvoke(asked: Any) -> Any:
    return asyncio.run(asked.ainvoke("Hi", "s-1"))


def stream(asked: Any) -> Any:
    return list(asked.stream("Hi", "s-1"))


def astream(asked: Any) -> Any:
    async def collect() -> list[Any]:
        return [it async for it in asked.astream("Hi", "s-1")]

    return asyncio.run(collect())


def function() -> Any:
    def fail() -> str:
        """Fails."""
        raise build_chain()

    return _agent([fail])


def executor() -> Any:
    return _agent(functions=[{"name": "fail", "description": "Fails."}], executor=Executor(KEY))


def own_error() -> Any:
    functions = [{"name": "fail", "description": "Fails."}]
    return _agent(functions=functions, executor=Executor(build_own()))


def model() -> Any:
    return agent(Failing())  # type: ignore[arg-type]


def _agent(actions: Any = None, **more: Any) -> Any:
    group = ActionGroup("work", actions, **more)
    return agent(NATIVE.model([NATIVE.calls(("work::fail", {}))]), [group])


KEY = build_chain()


@pytest.mark.parametrize("build", [function, executor, own_error, model])
@pytest.mark.parametrize("run", [invoke, ainvoke, stream, astream])
def test_the_chain_of_a_failed_turn_holds_no_text_of_others(
    build: Callable[[], Any], run: Callable[[Any], Any]
) -> None:
    with pytest.raises(OrchestratorError) as failed:
        run(build())
    chain = list_chain(failed.value)
    assert SECRET not in "".join(traceback.format_exception(failed.value))
    assert SECRET not in repr([[one, one.args, vars(one)] for one in chain])
    if build is not own_error:
        assert "KeyError" in repr(failed.value.__cause__)


def test_nobody_else_loses_a_cause() -> None:
    one = OrchestratorError("one")
    one.__cause__ = two = OrchestratorError("two")
    two.__cause__ = one  # and no chain is followed for ever
    hide_causes(one)
    assert one.__cause__ is two and two.__cause__ is one


def test_debugging_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_DEBUG", "1")
    with pytest.raises(OrchestratorError) as failed:
        invoke(function())
    assert SECRET in repr(failed.value.__cause__)


@pytest.mark.parametrize(
    ("language", "template"),
    [("semantic-kernel", "{{p.f $x}}"), ("handlebars", "{{p-f x}}"), ("jinja2", "{{p_f(x)}}")],
)
def test_a_templates_error_holds_nothing_of_its_functions_or_values(
    language: str, template: str
) -> None:
    def fail(text: str) -> str:
        raise build_chain()

    document = read_template(template, language)
    for function in (fail, lambda: ""):
        with pytest.raises(TemplateError, match=r"the function 'p\.f' (raised|takes)") as caught:
            document.render({"x": SECRET}, {"p.f": function})
        assert SECRET not in "".join(traceback.format_exception(caught.value))
