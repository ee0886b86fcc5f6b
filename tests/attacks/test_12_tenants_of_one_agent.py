"""Attack 12: another tenant uses the same session id; nothing of the one's reaches the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_agents import INSTRUCTION, NATIVE, answer, texts_of

from orchestrator import (
    ActionGroup,
    Agent,
    Collaborator,
    Memory,
    Reply,
    ReturnControl,
    Sessions,
    SQLiteStore,
    ValidationError,
    action,
)
from orchestrator.actions import ActionResult
from orchestrator.actions.base import Call, CallContext
from orchestrator.actions.code_interpreter.scratch import session_key
from orchestrator.engine.plan import RemoteAgent, RemoteReply
from orchestrator.memory import InMemoryMemory
from orchestrator.testing import FakeClock

SECRET = "zebra-1234"
HAND_OVER = [
    {"name": "transfer", "description": "d", "parameters": {"account": {"type": "string"}}}
]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield None
        return
    made = SQLiteStore(tmp_path / "sessions.sqlite")
    yield made
    made.close()


def two(agent: Agent) -> tuple[Agent, Agent]:
    return agent.for_tenant("ann"), agent.for_tenant("bob")


def test_history_and_attributes_do_not_cross(store: Any) -> None:
    model = NATIVE.model([answer(f"{SECRET} it is."), answer("Hello."), answer("Yes.")])
    ann, bob = two(Agent("hr", INSTRUCTION, model, sessions=Sessions(store)))
    ann.invoke(f"My code is {SECRET}.", "s-1", session_attributes={"code": SECRET})
    reply = bob.invoke("What is my code?", "s-1")
    assert not any(SECRET in text for text in texts_of(model.requests[1]))
    assert SECRET not in str(reply.trace)
    assert bob.sessions.peek(f"{bob.plan.owner}/s-1").attributes == {}
    assert [turn.question for turn in bob.turns("s-1")] == ["What is my code?"]
    ann.invoke("Do you know it?", "s-1")
    assert any(SECRET in text for text in texts_of(model.requests[2]))
    assert ann.sessions.peek(f"{ann.plan.owner}/s-1").attributes == {"code": SECRET}


def test_a_session_without_tenant_is_nobody_elses_and_stays_readable(store: Any) -> None:
    model = NATIVE.model([answer("One."), answer("Two."), answer("Three.")])
    agent = Agent("hr", INSTRUCTION, model, sessions=Sessions(store))
    agent.invoke(SECRET, "s-1")
    ann = agent.for_tenant("ann")
    assert ann.turns("s-1") == []
    ann.invoke("Hello", "s-1")
    again = ann.for_tenant("")
    assert again.plan.owner == f"{agent.plan.agent_id}/{agent.plan.alias_id}"
    assert [turn.question for turn in again.turns("s-1")] == [SECRET]
    (kept,) = [info for info in agent.sessions.store.list() if info.label.count("/") == 2]
    assert kept.label == f"{agent.plan.owner}/s-1"


def test_hand_overs_do_not_cross(store: Any) -> None:
    group = ActionGroup("bank", functions=HAND_OVER, executor=ReturnControl())
    call = NATIVE.calls(("bank::transfer", {"account": SECRET}))
    model = NATIVE.model([call, call, answer("Done.")])
    made = Agent("bank", INSTRUCTION, model, action_groups=[group], sessions=Sessions(store))
    ann, bob = two(made)
    control = ann.invoke("Transfer", "s-1").return_control
    assert control is not None
    results = control.answer({"transfer": "done"})
    with pytest.raises(ValidationError, match="no call waits"):
        bob.invoke(session_id="s-1", results=results)
    bob.invoke("Transfer", "s-1")  # and her turn still waits while his does
    with pytest.raises(ValidationError, match="no call waits"):
        bob.invoke(session_id="s-1", results=results)
    assert ann.invoke(session_id="s-1", results=results).text == "Done."


def test_a_turn_of_one_does_not_keep_the_other_waiting(store: Any) -> None:
    asked: list[Reply] = []

    @action
    def meet() -> str:
        """Meets the other tenant."""
        asked.append(bob.invoke("Hello", "s-1"))
        return "met"

    model = NATIVE.model([NATIVE.calls(("desk::meet", {})), answer("Hi Bob."), answer("Hi Ann.")])
    groups = [ActionGroup("desk", [meet])]
    ann, bob = two(Agent("hr", INSTRUCTION, model, action_groups=groups, sessions=Sessions(store)))
    assert ann.invoke("Hello", "s-1").text == "Hi Ann."
    assert [reply.text for reply in asked] == ["Hi Bob."]


def test_ending_a_session_ends_nobody_elses() -> None:
    model = NATIVE.model([answer("One."), answer("Two."), answer("Three.")])
    ann, bob = two(Agent("hr", INSTRUCTION, model))
    ann.invoke(SECRET, "s-1")
    bob.end_session("s-1")
    ann.invoke("Still there?", "s-1")
    assert any(SECRET in text for text in texts_of(model.requests[1]))


def test_memories_do_not_cross() -> None:
    summary = f"<summary><topic name='code'>It is {SECRET}.</topic></summary>"
    model = NATIVE.model([answer("Noted."), summary, answer("Hello."), answer("Hello.")])
    kept = Memory(InMemoryMemory())
    sessions = Sessions(clock=FakeClock())
    ann, bob = two(Agent("hr", INSTRUCTION, model, memory=kept, sessions=sessions))
    ann.invoke(f"My code is {SECRET}.", "s-1", memory_id="m-1", end_session=True)
    assert SECRET in str(ann.memories("m-1"))
    assert bob.memories("m-1") == []
    bob.invoke("Hello", "s-2", memory_id="m-1")
    assert not any(SECRET in text for text in texts_of(model.requests[2]))
    bob.forget("m-1")
    ann.invoke("Hello", "s-2", memory_id="m-1")
    assert SECRET in str(model.requests[3].messages) + str(model.requests[3].system)


class Noting:
    """An executor that notes who called."""

    def __init__(self) -> None:
        self.contexts: list[CallContext] = []

    def call(self, call: Call, context: CallContext) -> ActionResult:
        self.contexts.append(context)
        return ActionResult("done")


def test_folders_of_the_code_interpreter_do_not_cross() -> None:
    noting, functions = Noting(), [{"name": "run", "description": "d"}]
    call = NATIVE.calls(("code::run", {}))
    model = NATIVE.model([part for _ in range(3) for part in (call, answer("Done."))])
    group = ActionGroup("code", functions=functions, executor=noting)
    agent = Agent("sums", INSTRUCTION, model, action_groups=[group])
    for one in (*two(agent), agent):
        one.invoke("Run", "s-1")
    keys = [session_key(context) for context in noting.contexts]
    assert len(set(keys)) == 3
    before = CallContext(noting.contexts[2].agent, "s-1", "", {}, {}, 1)
    assert keys[2] == session_key(before)


class Elsewhere(RemoteAgent):
    """A collaborator that runs elsewhere; notes its sessions."""

    alias_arn = "arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID"

    def __init__(self) -> None:
        self.sessions: list[str] = []

    def invoke(
        self,
        text: str,
        session_id: str,
        session_attributes: Mapping[str, str],
        prompt_session_attributes: Mapping[str, str],
    ) -> RemoteReply:
        self.sessions.append(session_id)
        return RemoteReply("Done.")


def sends(name: str) -> Any:
    use = {"recipient": name, "content": "Do it."}
    return [
        {"toolUse": {"toolUseId": "t-1", "name": "AgentCommunication__sendMessage", "input": use}}
    ]


def test_collaborators_have_sessions_of_their_own_for_each_tenant() -> None:
    noting, remote = Noting(), Elsewhere()
    functions = [{"name": "run", "description": "d"}]
    group = ActionGroup("code", functions=functions, executor=noting)
    run = [NATIVE.calls(("code::run", {})), answer("Done.")]
    sums = Agent("sums", INSTRUCTION, NATIVE.model(run * 2), action_groups=[group])
    script = [sends("sums"), sends("far"), answer("Done.")]
    boss = Agent(
        "boss",
        INSTRUCTION,
        NATIVE.model(script * 2),
        collaborators=[
            Collaborator(sums, "Does sums."),
            Collaborator(remote, "Does the rest.", name="far"),
        ],
    )
    for one in two(boss):
        assert one.invoke("Go", "s-1").text == "Done."
    assert len({session_key(context) for context in noting.contexts}) == 2
    assert len(set(remote.sessions)) == 2


NAMES = st.text(st.sampled_from("ab/\0:%. é\ud800"), max_size=5)
AGENT = Agent("hr", INSTRUCTION, NATIVE.model([]), agent_id="AB12345678")


@given(mine=NAMES, other=NAMES, session=st.sampled_from(["..", "s-1", "a:b"]))
def test_no_name_of_a_tenant_makes_anothers_keys(mine: str, other: str, session: str) -> None:
    keys = [f"{AGENT.for_tenant(name).plan.owner}/{session}" for name in (mine, other)]
    assert (keys[0] == keys[1]) == (mine == other)
    assert all(key.encode() for key in keys)


def test_what_is_compiled_is_shared() -> None:
    ann = AGENT.for_tenant("ann")
    assert ann.plan.stages is AGENT.plan.stages
    assert ann.plan.catalog is AGENT.plan.catalog
    assert ann.sessions is AGENT.sessions
