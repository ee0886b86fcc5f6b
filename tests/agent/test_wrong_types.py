"""Arguments, and replies of a user's own parts, that are of another type: what the errors say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from whole_agents import CLAUDE_35, INSTRUCTION, NATIVE, agent, answer

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    DefinitionError,
    DependencyFailed,
    Sessions,
    ValidationError,
    load_template,
)
from orchestrator.models import Model, ModelReply, ModelRequest

ARN = "arn:aws:bedrock:eu-central-1:111122223333:agent-alias/ABCDEFGHIJ/KLMNOPQRST"
WRONG = pytest.mark.parametrize("wrong", ["canary", None, {"text": "canary"}, 5])


class Replying(Model):
    """A model that replies with anything."""

    model_id = CLAUDE_35

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def complete(self, request: ModelRequest) -> Any:
        return self.reply


def invoke(agent: Agent) -> Any:
    return agent.invoke("Hi", "s-1")


def ainvoke(agent: Agent) -> Any:
    return asyncio.run(agent.ainvoke("Hi", "s-1"))


def stream(agent: Agent) -> Any:
    return list(agent.stream("Hi", "s-1"))


def astream(agent: Agent) -> Any:
    async def read() -> Any:
        return [event async for event in agent.astream("Hi", "s-1")]

    return asyncio.run(read())


EACH_WAY = pytest.mark.parametrize("run", [invoke, ainvoke, stream, astream])
Run = Callable[[Agent], Any]


def refuse(run: Run, subject: Agent, *texts: str) -> None:
    with pytest.raises(DependencyFailed) as caught:
        run(subject)
    for text in texts:
        assert text in caught.value.message
    assert "canary" not in caught.value.message
    assert caught.value.reply is not None and caught.value.reply.stop_reason == "failure"


TEXT = [{"text": answer("Hello.")}]


@EACH_WAY
@pytest.mark.parametrize(
    ("reply", "wrong", "wanted"),
    [
        ("canary", "str", "ModelReply([{'text': ...}])"),
        (None, "NoneType", "ModelReply([{'text': ...}])"),
        ({"text": "canary"}, "dict", "ModelReply([{'text': ...}])"),
        (TEXT, "list", "ModelReply([{'text': ...}])"),
        (ModelReply("canary"), "str", "a list of blocks as its content"),  # type: ignore[arg-type]
        (ModelReply(TEXT, usage=None), "NoneType", "Usage(...) as its usage"),  # type: ignore[arg-type]
        (ModelReply(TEXT, usage={"in": 1}), "dict", "Usage(...) as its usage"),  # type: ignore[arg-type]
    ],
)
def test_a_models_reply(run: Run, reply: Any, wrong: str, wanted: str) -> None:
    says = f"of the class 'Replying', replied with an object of the class '{wrong}'; it has to"
    refuse(run, agent(Replying(reply)), f"{says} reply with {wanted}")  # type: ignore[arg-type]


class StreamsDicts(Replying):
    def stream(self, request: ModelRequest) -> Iterator[Any]:
        yield {"text": "canary"}


class StreamsTexts(Replying):
    def stream(self, request: ModelRequest) -> Iterator[Any]:
        yield "<answer>canary"


class StreamsList(Replying):
    def stream(self, request: ModelRequest) -> Any:
        return ["<answer>canary"]


class TakesNothing(Replying):
    def complete(self) -> Any:  # type: ignore[override]
        return ModelReply(TEXT)


class WaitsForNothing(Replying):
    def acomplete(self, request: ModelRequest) -> Any:  # type: ignore[override]
        return ModelReply(TEXT)


class WaitsForAll(Replying):
    async def astream(self, request: ModelRequest) -> Any:  # type: ignore[override]
        return ModelReply(TEXT)


class Raises(Replying):
    def complete(self, request: ModelRequest) -> Any:
        raise AttributeError("canary")


class RaisesToo(Raises):
    """Has no methods of its own."""


@pytest.mark.parametrize(
    ("model", "run", "says"),
    [
        (StreamsDicts, stream, "of the class 'StreamsDicts', replied with an object of the class"),
        (StreamsTexts, stream, "have a model of your own yield its ModelReply at last"),
        (StreamsList, stream, "its class 'StreamsList' has to be like `orchestrator.models.Model`"),
        (TakesNothing, invoke, "takes 1 positional argument but 2 were given)"),
        (WaitsForNothing, ainvoke, "('ModelReply' object has no attribute 'send')"),
        (WaitsForAll, astream, "its class 'WaitsForAll' has to be like"),
        (Raises, invoke, "raised AttributeError at test_wrong_types.py:"),
        (RaisesToo, ainvoke, "raised AttributeError at test_wrong_types.py:"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_models_methods(model: type[Replying], run: Run, says: str) -> None:
    refuse(run, agent(model(None)), f"the {'stream of ' * (model is StreamsTexts)}model '", says)  # type: ignore[arg-type]


class Nameless(Model):
    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(TEXT)


class Numbered(Nameless):
    model_id = 5  # type: ignore[assignment]


@pytest.mark.parametrize("model", [Nameless, Numbered])
def test_a_models_id(model: type[Model]) -> None:
    with pytest.raises(ValidationError, match=f"class '{model.__name__}' has no text as its model"):
        Agent("hr", INSTRUCTION, model())


@WRONG
@EACH_WAY
def test_a_guardrails_verdict(run: Run, wrong: Any) -> None:
    class Guards:
        id = "mine"

        def check(self, text: str, source: str) -> Any:
            return wrong

    subject = agent(NATIVE.model([answer("Hello.")]), guardrail=Guards())
    name = type(wrong).__name__
    refuse(run, subject, f"'mine' returned an object of the class '{name}'", "nothing goes through")


@WRONG
@EACH_WAY
def test_an_executors_result(run: Run, wrong: Any) -> None:
    class Executes:
        def call(self, call: Any, context: Any) -> Any:
            return wrong

    class AlsoInLoop(Executes):
        async def acall(self, call: Any, context: Any) -> Any:
            return wrong

    for executor in (Executes(), AlsoInLoop()):
        functions = [{"name": "pay", "description": "Pays."}]
        bank = ActionGroup("bank", functions=functions, executor=executor)
        subject = agent(NATIVE.model([NATIVE.calls(("bank::pay", {}))]), [bank])
        name = type(wrong).__name__
        refuse(
            run, subject, f"'bank::pay' returned an object of the class '{name}'", "ActionResult"
        )


@WRONG
@EACH_WAY
def test_a_remote_agents_reply(run: Run, wrong: Any) -> None:
    class Remote:
        alias_arn = ARN

        def invoke(self, *given: Any) -> Any:
            return wrong

    sends = ("AgentCommunication::sendMessage", {"recipient": "desk", "content": "Hi."})
    team = [Collaborator(Remote(), "Knows claims.", "desk")]
    subject = agent(NATIVE.model([NATIVE.calls(sends)]), collaborators=team)
    refuse(run, subject, "'desk' replied with an object of the class", "return a RemoteReply")


@pytest.mark.parametrize("value", [5, b"s.db", [], {}, object()])
def test_sessions(value: Any) -> None:
    says = f"an object of the class '{type(value).__name__}' has no 'durable'"
    for make in (Sessions.of, Sessions, lambda value: agent(NATIVE.model([]), sessions=value)):
        with pytest.raises(ValidationError, match=says):
            make(value)


def pay(to: str) -> str:
    """Pays somebody."""
    return to


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        (pay, "is a list of functions, not an object of the class 'function'; write actions=["),
        ("pay", "is a list of functions, not an object of the class 'str'"),
        (["pay"], "is a list of functions, and has an object of the class 'str'"),
        ([pay, 5], "is a list of functions, and has an object of the class 'int'"),
    ],
)
def test_actions(actions: Any, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ActionGroup("bank", actions)
    assert says in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 5, ["Help."]])
def test_an_agents_texts(wrong: Any) -> None:
    model = NATIVE.model([])
    with pytest.raises(DefinitionError, match="instruction= is a text that says what the agent is"):
        Agent("hr", wrong, model)
    with pytest.raises(DefinitionError, match="name= is a text, and not"):
        Agent(wrong, INSTRUCTION, model)
    with pytest.raises(ValidationError, match="a tenant is named by a text, and not by"):
        agent(model).for_tenant(wrong)


@pytest.mark.parametrize("inputs", [5, "x", ["x"], None])
def test_inputs_of_a_template(inputs: Any, tmp_path: Path) -> None:
    (tmp_path / "greet.prompty").write_text("---\nname: greet\n---\nuser:\nHi {{name}}\n")
    with pytest.raises(ValidationError, match="the inputs are values by name, and no"):
        load_template(tmp_path / "greet.prompty").render(inputs)


class Broken:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("canary")


class Retrieves:
    id, description = "KB12345678", "Rules."

    def retrieve(self, query: Any) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"guardrail": Broken()}, "guardrail= has an object of the class 'Broken', which raised"),
        ({"knowledge_bases": [Broken()]}, "knowledge_bases= has an object of the class 'Broken'"),
        ({"knowledge_bases": [Retrieves]}, "and the class 'Retrieves' is none"),
    ],
)
def test_parts_of_an_agent(options: Any, says: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        agent(NATIVE.model([]), **options)
    assert says in str(caught.value) and "canary" not in str(caught.value)
    assert agent(NATIVE.model([]), knowledge_bases=[Retrieves()])
