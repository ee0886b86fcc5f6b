"""`Flow.submit`: a run of a script that some worker runs."""

import asyncio
from threading import Event

import pytest
from durable_support import CLAUDE, make_agent

from orchestrator import ActionGroup, Flow, ReturnControl
from orchestrator.agent.durable import DurableFlow
from orchestrator.errors import (
    FlowError,
    ResourceNotFound,
    SessionConflict,
    TurnLeft,
    ValidationError,
)
from orchestrator.testing import ScriptedModel

LONG = 60  # seconds that no test waits for, unless it fails

POEM = "Name a thing of $place. -> thing\n@double(2) -> n\nSay $thing. -> text"


@pytest.fixture
def program(sessions):
    def make(text, *replies, name="poem", language="pl", **options):
        flow = Flow.from_text(text, language)
        return DurableFlow(
            flow, name, model=ScriptedModel(list(replies), CLAUDE), sessions=sessions, **options
        )

    return make


TOOLS = {"double": lambda n: n * 2}


def test_a_program_runs_in_a_worker_and_its_steps_are_the_effects(runs, program, work):
    poem = program(POEM, "rain", "It rains.", tools=TOOLS)
    submission = poem.submit({"place": "Bergen"}, runs=runs, run_id="r-1")
    assert submission.status() == "queued"
    with work(flows=[poem]):
        result = submission.result(LONG)
    assert (result.output, result.waits_for, result.paused) == ("It rains.", "", None)
    assert result.variables == {"place": "Bergen", "thing": "rain", "n": 4, "text": "It rains."}
    assert (result.usage.calls, len(result.trace) > 2) == (2, True)
    steps = [it["function_name"] for it in runs.client.list_workflow_steps(submission.id)]
    effects = [it.split()[0] for it in steps if it != "orchestration"]
    assert effects == ["model", "actions", "model"]
    found = poem.find_submission(submission.id, runs=runs)
    assert found.result(0).as_dict() == result.as_dict()


def test_the_method_of_a_flow_submits_to_the_worker_of_its_name(runs, program, work, sessions):
    flow = Flow.from_text("user: Name a thing.\nassistant: '[[thing]]'", "ppe")
    submission = flow.submit(
        runs=runs, name="thing", model=ScriptedModel([], CLAUDE), sessions=sessions
    )
    own = DurableFlow(flow, "thing", model=ScriptedModel(["rain"], CLAUDE), sessions=sessions)
    with work(flows=[own]):
        result = asyncio.run(submission.aresult(LONG))
    assert result.output == "rain"
    assert [it["role"] for it in result.messages] == ["user", "assistant"]


def test_a_run_waits_at_a_breakpoint_and_goes_on_in_another_process(runs, program, work):
    text = "Name a bird. -> bird\n(bp)\nDescribe $bird. -> text"
    birds = program(text, "heron")
    first = birds.submit(runs=runs, run_id="r-1")
    with work(flows=[birds]):
        waits = first.result(LONG)
    assert (waits.waits_for, waits.line, waits.variables) == ("breakpoint", 2, {"bird": "heron"})
    birds = program(text, "Grey, patient.")
    first = birds.find_submission(first.id, runs=runs)
    second = first.resume()
    assert first.resume().id == second.id  # the same answer twice is one
    with pytest.raises(SessionConflict, match="was given another answer there"):
        first.resume(mode="step")
    with work(flows=[birds]):
        result = asyncio.run(second.aresult(LONG))
    assert (result.output, result.variables["bird"]) == ("Grey, patient.", "heron")
    with pytest.raises(ValidationError, match="the run does not wait"):
        second.resume()


def test_a_call_that_the_caller_carries_out_is_answered_later(runs, program, work):
    functions = [{"name": "pay", "description": "Pays.", "parameters": {"to": {"type": "string"}}}]
    bank = ActionGroup("bank", executor=ReturnControl(), functions=functions)
    pay = program('@pay(to="Ann") -> paid', action_groups=[bank])
    first = pay.submit(runs=runs)
    with work(flows=[pay]):
        assert first.result(LONG).waits_for == "call"
        with pytest.raises(ValidationError, match="give results="):
            first.resume()
        done = asyncio.run(first.aresume(results={"pay": "20 to Ann"}))
        assert done.result(LONG).output == "20 to Ann"


def test_a_run_is_submitted_once(runs, program, work):
    poem = program("Say $word. -> text", "Once.")
    first = poem.submit({"word": "a"}, runs=runs, run_id="r-1")
    assert poem.submit({"word": "a"}, runs=runs, run_id="r-1").id == first.id
    with pytest.raises(SessionConflict, match="the run 'r-1' was submitted with other arguments"):
        poem.submit({"word": "b"}, runs=runs, run_id="r-1")
    with work(flows=[poem]):
        assert first.result(LONG).output == "Once."


def test_the_error_of_a_run_is_raised(runs, program, work):
    def fail(n: int) -> int:
        """Fails."""
        raise ValueError("no")

    wrong = program("@double(2) -> n", tools={"double": fail})
    submission = wrong.submit(runs=runs)
    with work(flows=[wrong]), pytest.raises(FlowError, match="double"):
        submission.result(LONG)
    assert submission.status() == "failed"


def test_a_run_that_is_cancelled_ends_after_its_effect(runs, program, work):
    begun, go_on = Event(), Event()

    def block(n: int) -> int:
        """Waits."""
        begun.set()
        assert go_on.wait(LONG)
        return n

    slow = program(POEM, "rain", "never", tools={"double": block})
    submission = slow.submit({"place": "Bergen"}, runs=runs)
    with work(flows=[slow]):
        assert begun.wait(LONG)
        submission.cancel()
        go_on.set()
        result = submission.result(LONG)
    assert (result.reply.stop_reason, result.output) == ("cancelled", None)


def test_a_run_that_a_stopped_worker_left_repeats_nothing(runs, program, work):
    done = []

    def double(n: int) -> int:
        """Doubles."""
        done.append(n)
        return 2 * n

    first = program(POEM, "rain", tools={"double": double})
    submission = first.submit({"place": "Bergen"}, runs=runs, run_id="r-1")

    def stop(progress, work):
        if done:
            raise TurnLeft
        return work()[0]

    def leave(question):
        with pytest.raises(TurnLeft):
            first.agent.invoke_in_steps(
                stop, question, "r-1", workflow=submission.id, request_id=submission.id
            )

    (row,) = runs.client.list_workflows(workflow_ids=[submission.id])
    leave(row.input["args"][0]["question"])
    second = program(POEM, "It rains.", tools={"double": double})
    with work(flows=[second]):
        result = submission.result(LONG)
    assert (result.output, result.variables["thing"], done) == ("It rains.", "rain", [2])


def test_the_end_of_a_run_is_its_result_when_its_worker_was_killed_after_it(runs, program, work):
    poem = program("Say $word. -> text", "Once.")
    submission = poem.submit({"word": "a"}, runs=runs, run_id="r-1")
    (row,) = runs.client.list_workflows(workflow_ids=[submission.id])
    question = row.input["args"][0]["question"]
    # The turn has ended in its journal, and the workflow's result was not written.
    poem.agent.invoke(question, "r-1", request_id=submission.id)
    again = program("Say $word. -> text")
    with work(flows=[again]):
        result = submission.result(LONG)
    assert (result.output, result.variables) == ("Once.", {"word": "a", "text": "Once."})


def test_agents_and_flows_share_a_worker(runs, sessions, program, work):
    agent = make_agent(sessions, ["<answer>Yes.</answer>"])
    poem = program("Say it. -> text", "It.")
    with work(agent, flows=[poem]):
        assert agent.submit("Hi", runs=runs).result(LONG).text == "Yes."
        assert poem.submit(runs=runs).result(LONG).output == "It."


def test_what_cannot_be_submitted_is_refused_at_once(runs, program, work, sessions):
    poem = program("Say it. -> text")
    with pytest.raises(ValidationError, match="are in this process's memory"):
        Flow.from_text("Say it. -> text", "pl").submit(runs=runs, model=ScriptedModel([], CLAUDE))
    with pytest.raises(ValidationError, match="values by name"):
        poem.submit([1], runs=runs)
    with pytest.raises(ValidationError, match="another name"):
        work(flows=[poem, program("Say that. -> text")])
    with pytest.raises(TypeError, match="unknown options"):
        poem_flow = Flow.from_text("Say it. -> text", "pl")
        poem_flow.submit(runs=runs, model=ScriptedModel([], CLAUDE), colour="red")
    agent = make_agent(sessions, [])
    submission = poem.submit(runs=runs)
    with pytest.raises(ResourceNotFound, match="has no submitted turn"):
        agent.find_submission(submission.id, runs=runs)
    with work(agent), pytest.raises(ValidationError, match="has no agent or script"):
        submission.result(LONG)
