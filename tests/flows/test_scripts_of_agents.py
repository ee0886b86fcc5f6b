"""A script as the orchestration of an agent: what it can call, and what the engine gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import agent, get_days, handed_over, program, script, scripted, statements, texts

from orchestrator import ActionGroup, Agent, Collaborator, FlowError, LimitExceeded, load_flow
from orchestrator.engine.trace.reply import TextDelta
from orchestrator.errors import DefinitionError, DependencyFailed, SessionConflict, ThrottlingError
from orchestrator.flows.orchestration import FlowOrchestration
from orchestrator.limits import Limits


class Base:
    """A knowledge base."""

    id = "HANDBOOK01"
    description = "The handbook."

    def retrieve(self, query: str, configuration: Any = None) -> list[dict[str, Any]]:
        return [{"content": {"text": f"found for {query}", "type": "TEXT"}, "location": {}}]


@pytest.mark.parametrize("name", ["get_days", "vacations__get_days"])
@pytest.mark.parametrize("how", ['"7"', 'employee="7"'])
def test_an_action_is_called_by_name(name: str, how: str) -> None:
    asked, model = agent(
        program(f"@{name}({how}) -> days", "Say that ${days.left} are left -> answer"), "12 days."
    )
    assert asked.invoke("How many?", "s-1").text == "12 days."
    assert texts(model.requests[0]) == ["Say that 12 are left"]


def test_a_ppe_script_calls_actions_as_instructions() -> None:
    flow = script(
        "$get_days: {employee: '8'}", "-> $print", "user: '{{content}}, {{LatestResult}}'"
    )
    asked, model = agent(flow, "3.")
    assert asked.invoke("How many?", "s-1").text == "3."
    assert texts(model.requests[0]) == ['How many?, {"left":3,"of":"8"}']


def test_a_name_that_two_groups_have_must_be_whole() -> None:
    groups = [ActionGroup("one", [get_days]), ActionGroup("two", [get_days])]
    asked, _ = agent(program('@get_days("7") -> a'), groups=groups)
    with pytest.raises(FlowError, match="no function 'get_days'") as raised:
        asked.invoke("?", "s-1")
    assert "one__get_days" in raised.value.message
    asked, _ = agent(program('@two__get_days("7") -> a'), groups=groups)
    assert '"left": 12' in asked.invoke("?", "s-2").text


def test_names_that_are_no_identifiers_are_written_with_underscores() -> None:
    asked, _ = agent(
        program('@my_days__get_days("7") -> a'), groups=[ActionGroup("my-days", [get_days])]
    )
    assert '"left": 12' in asked.invoke("?", "s-1").text


@pytest.mark.parametrize("name", ["search", "HANDBOOK01"])
def test_a_knowledge_base_is_searched(name: str) -> None:
    flow = program(f"@{name}($question) -> found", "Answer with $found -> answer")
    asked, model = agent(flow, "Done.", knowledge_bases=[Base()])
    assert asked.invoke("leave", "s-1").text == "Done."
    assert "found for leave" in texts(model.requests[0])[0]


def test_a_collaborator_is_asked() -> None:
    helper = Agent("helper", "You help.", scripted("<answer>It is 42.</answer>"))
    team = [Collaborator(helper, "Knows numbers.", "number-desk")]
    asked, _ = agent(program('@number_desk("Which number?") -> said'), collaborators=team)
    assert asked.invoke("?", "s-1").text == "It is 42."


def test_the_users_input_and_prompt_attributes_are_arguments() -> None:
    asked, model = agent(program("$question in $language -> answer"), "Hallo.")
    asked.invoke("Hello", "s-1", prompt_session_attributes={"language": "German"})
    assert texts(model.requests[0]) == ["Hello in German"]


def test_the_users_input_is_the_one_text_of_a_ppe_script() -> None:
    flow = script(
        "---", "input:", "  - topic: {index: 0, required: true}", "---", "user: 'On {{topic}}'"
    )
    asked, model = agent(flow, "Fine.")
    asked.invoke("birds", "s-1")
    assert texts(model.requests[0]) == ["On birds"]


def test_what_the_user_says_is_never_a_statement() -> None:
    asked, model = agent(program("Repeat: $question -> answer"), "Ok.")
    said = "x -> y\n@get_days('7') -> z\n$answer ${question} (bp)"
    assert asked.invoke(said, "s-1").text == "Ok."
    assert texts(model.requests[0]) == [f"Repeat: {said}"]


def test_models_are_offered_the_agents_actions_and_nothing_of_the_script() -> None:
    flow = program("Help with $question -> answer", "@code(```python\nx = 1\n```) -> b")
    asked, model = agent(flow, "Ok.")
    asked.invoke("?", "s-1")
    assert [it["toolSpec"]["name"] for it in model.requests[0].tools] == ["vacations__get_days"]
    assert [it.xml_name for it in asked.plan.catalog.operations] == ["vacations::get_days"]


def test_registered_functions_are_called_and_offered_under_their_own_names() -> None:
    def double(number: int) -> int:
        """Doubles a number."""
        return number * 2

    flow = program("@double(21) -> twice", "Say $twice -> answer")
    asked, model = agent(flow.as_orchestration({"double": double}), "42.")
    asked.invoke("?", "s-1")
    assert texts(model.requests[0]) == ["Say 42"]
    names = [it["toolSpec"]["name"] for it in model.requests[0].tools]
    assert names == ["vacations__get_days", "double"]


def test_a_tool_that_the_model_calls_is_carried_out() -> None:
    call = {
        "toolUse": {"toolUseId": "t", "name": "vacations__get_days", "input": {"employee": "8"}}
    }
    asked, _ = agent(program("Help with $question -> answer"), [call])
    assert asked.invoke("?", "s-1").text == '{"left": 3, "of": "8"}'


def test_only_the_last_reply_streams_as_the_answer() -> None:
    flow = program("First -> a", "FOR $one in [1, 2]:", "    On $one -> b", "END")
    asked, _ = agent(flow, "not shown", "not shown", "shown")
    events = list(asked.stream("?", "s-1"))
    assert [it.text for it in events if isinstance(it, TextDelta)] == ["shown"]


def test_an_answer_that_no_model_wrote_is_told_at_the_end() -> None:
    asked, _ = agent(program("First -> a", '@exit(msg="Bye, $a.")'), "Emma")
    events = list(asked.stream("?", "s-1"))
    assert "".join(it.text for it in events if isinstance(it, TextDelta)) == "Bye, Emma."


def test_a_ppe_answer_streams() -> None:
    for lines in (["user: hi"], ["user: hi", "assistant: '[[Answer]]'"]):
        asked, _ = agent(script(*lines), "Hello.")
        events = list(asked.stream("?", "s-1"))
        assert [it.text for it in events if isinstance(it, TextDelta)] == ["Hello."]
        assert events[-1].reply.text == "Hello."


def test_the_trace_tells_statements_and_warnings() -> None:
    flow = program("@get_days('7') -> days", "", "On $nothing -> a")
    asked, _ = agent(flow, "Ok.")
    reply = asked.invoke("?", "s-1")
    assert statements(reply.trace) == [
        "line 1: @get_days('7') -> days",
        "line 3: On $nothing -> a",
        "line 3: $nothing is not defined",
    ]
    kinds = [
        next(iter(part["trace"]["orchestrationTrace"]))
        for part in reply.trace
        if "orchestrationTrace" in part["trace"]
    ]
    assert kinds[:2] == ["invocationInput", "observation"]


def test_a_call_that_returns_control_goes_on_with_its_result() -> None:
    flow = program('@pay("Emma") -> paid', "Say $paid -> answer")
    asked, model = agent(flow, "Done.", groups=[handed_over()])
    waits = asked.invoke("?", "s-1").return_control
    assert waits.invocation_inputs[0]["functionInvocationInput"]["function"] == "pay"
    assert not model.requests
    reply = asked.invoke(session_id="s-1", results=waits.answer("5 EUR"))
    assert reply.text == "Done."
    assert texts(model.requests[0]) == ["Say 5 EUR"]


def test_a_call_that_the_caller_reports_as_failed_fails_its_statement() -> None:
    asked, _ = agent(program('@pay("Emma") -> paid'), groups=[handed_over()])
    waits = asked.invoke("?", "s-1").return_control
    results = waits.answer("x")
    results["returnControlInvocationResults"][0]["functionResult"]["responseState"] = "FAILURE"
    with pytest.raises(DependencyFailed, match="the caller reported") as raised:
        asked.invoke(session_id="s-1", results=results)
    assert "1:1" in raised.value.message


def test_a_breakpoint_returns_control_too() -> None:
    asked, _ = agent(program("First -> a", "(bp)", "Second -> b"), "1", "2")
    waits = asked.invoke("?", "s-1").return_control
    told = waits.invocation_inputs[0]["functionInvocationInput"]
    assert (told["function"], told["parameters"][0]["value"]) == ("breakpoint", "2")
    assert asked.invoke(session_id="s-1", results=waits.answer("continue")).text == "2"


def test_a_talk_with_the_user_returns_control_for_each_of_his_texts() -> None:
    flow = program('@agent(type="prompt-based", task="Talk.") -> talk')
    asked, model = agent(flow, "What now?", "Fine.")
    first = asked.invoke("?", "s-1").return_control
    assert (
        first.invocation_inputs[0]["functionInvocationInput"]["parameters"][0]["value"]
        == "What now?"
    )
    second = asked.invoke(session_id="s-1", results=first.answer("Sing.")).return_control
    assert (
        asked.invoke(session_id="s-1", results=second.answer("exit")).text
        == "What now?\nSing.\nFine."
    )
    assert texts(model.requests[1])[-1] == "Sing."


def test_a_models_question_to_the_user_ends_the_turn() -> None:
    call = {
        "toolUse": {"toolUseId": "t", "name": "user__askuser", "input": {"question": "Which day?"}}
    }
    groups = [ActionGroup("ask", signature="AMAZON.UserInput")]
    asked, _ = agent(program("Help with $question -> answer"), [call], groups=groups)
    reply = asked.invoke("?", "s-1")
    assert (reply.text, reply.stop_reason) == ("Which day?", "ask_user")


def test_limits_are_the_agents() -> None:
    flow = program("FOR $one in [1, 2, 3]:", "    On $one -> b", "END")
    asked, model = agent(flow, "1", "2", "3", limits=Limits(model_calls=2))
    with pytest.raises(LimitExceeded):
        asked.invoke("?", "s-1")
    assert len(model.requests) == 2


def test_what_fails_is_told_with_the_place_and_as_what_it_is() -> None:
    asked, _ = agent(program("", "Say it -> a"), ThrottlingError("slow down", resource="m"))
    with pytest.raises(ThrottlingError, match=r"<text>:2:1: slow down") as raised:
        asked.invoke("?", "s-1")
    assert raised.value.resource == "m"


def test_a_fault_of_the_script_is_a_flow_error() -> None:
    asked, _ = agent(program("FOR $one in $nothing:", "    Say -> a", "END"))
    with pytest.raises(FlowError) as raised:
        asked.invoke("?", "s-1")
    assert (raised.value.line, raised.value.statement) == (1, "FOR $one in $nothing:")


def test_groups_of_the_agent_may_not_take_the_scripts_names() -> None:
    with pytest.raises(DefinitionError, match="two action groups 'flowcontrol'"):
        agent(program("Say -> a"), groups=[ActionGroup("flowcontrol", [get_days])])


# Folders

YAML = """agentName: poet
instruction: You write poems for people who ask for them.
foundationModel: {model}
orchestration: flow.pl
"""


def folder(root: Path, text: str, yaml: str = YAML) -> Path:
    (root / "agent.yaml").write_text(yaml.replace("{model}", "local"), encoding="utf-8")
    (root / "flow.pl").write_text(text, encoding="utf-8")
    return root


def test_an_agents_folder_names_its_script(tmp_path: Path) -> None:
    asked = Agent.load(
        folder(tmp_path, "写一首关于$question的诗 -> poem\n"), model=scripted("床前")
    )
    assert asked.invoke("月亮", "s-1").text == "床前"
    assert isinstance(asked.plan.features.orchestration, FlowOrchestration)


def test_a_script_that_is_wrong_is_told_when_the_agent_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(FlowError) as raised:
        Agent.load(folder(tmp_path, "IF $a:\n    Say -> b\n"), model=scripted())
    assert (raised.value.file, raised.value.line) == (str(tmp_path / "flow.pl"), 1)


@pytest.mark.parametrize("name", ["../flow.pl", "none.pl", "agent.yaml"])
def test_a_script_is_a_script_in_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "flow.pl").write_text("Say -> b\n")
    own = folder(tmp_path / "own", "Say -> b\n", YAML.replace("flow.pl", name))
    with pytest.raises(DefinitionError, match=r"agent\.yaml"):
        Agent.load(own, model=scripted())


def test_a_script_stands_for_custom_orchestration(tmp_path: Path) -> None:
    more = "orchestrationType: CUSTOM_ORCHESTRATION\n"
    with pytest.raises(DefinitionError, match="leave orchestrationType"):
        Agent.load(folder(tmp_path, "Say -> b\n", YAML + more), model=scripted())


def test_a_changed_script_does_not_go_on_with_the_turn_of_the_old_one(tmp_path: Path) -> None:
    def asked(text: str) -> Agent:
        return Agent.load(folder(tmp_path, text), model=scripted("1", "2"), sessions=tmp_path / "s")

    waits = asked("First -> a\n(bp)\nSecond -> b\n").invoke("?", "s-1").return_control
    with pytest.raises(SessionConflict, match="another version"):
        asked("First -> a\n(bp)\nOther -> b\n").invoke(
            session_id="s-1", results=waits.answer("continue")
        )


def test_an_inline_definition_takes_a_script_as_an_object_or_when_trusted(tmp_path: Path) -> None:
    folder(tmp_path, "Say -> a\n")
    given: dict[str, Any] = {"foundationModel": "local", "instruction": "You help people with it."}
    flow = load_flow(tmp_path / "flow.pl")
    assert Agent.inline(model=scripted("x"), orchestration=flow, **given).invoke("?").text == "x"
    trusted = Agent.inline(
        model=scripted("y"), orchestration="flow.pl", folder=tmp_path, trusted=True, **given
    )
    assert trusted.invoke("?").text == "y"
    with pytest.raises(DefinitionError, match=r"'flow\.pl' would orchestrate"):
        Agent.inline(model=scripted(), orchestration="flow.pl", folder=tmp_path, **given)


# What was said before


HISTORY = program(
    "IF $history == []:",
    "    First: $question -> answer",
    "else:",
    "    @get_days('7') -> days",
    "    Before: ${history[0].text} / ${history[-1].text}. Now: $question -> answer",
    "END",
)


def test_a_script_knows_what_was_said_before(tmp_path: Path) -> None:
    asked, model = agent(HISTORY, "Hi Emma.", "Bye.", "Hm.", sessions=tmp_path / "s.sqlite")
    asked.invoke("I am Emma", "s-1")
    asked.invoke("Bye", "s-1")
    assert texts(model.requests[1]) == ["Before: I am Emma / Hi Emma.. Now: Bye"]
    asked.invoke("Other", "s-2")
    assert texts(model.requests[2]) == ["First: Other"]
    again, model = agent(HISTORY, "Hello again.", sessions=tmp_path / "s.sqlite")
    again.invoke("Back", "s-1")  # in another process
    assert texts(model.requests[0]) == ["Before: I am Emma / Bye.. Now: Back"]


@pytest.mark.parametrize("turns", [0, 1])
def test_it_knows_as_many_turns_as_the_caller_wants(turns: int) -> None:
    asked, model = agent(program("@get_days('7') -> d", "Say $history -> answer"), "1", "2", "3")
    for question in ("one", "two"):
        asked.invoke(question, "s-1")
    asked.invoke("three", "s-1", previous_turns=turns)
    (told,) = texts(model.requests[-1])
    assert ("one" in told, "two" in told) == (False, turns == 1)


def test_a_paused_script_goes_on_with_what_was_said_before_it() -> None:
    asked, _ = agent(
        program("(bp)", "@get_days('7') -> d", '@exit(msg="${history}")'),
    )
    waits = asked.invoke("one", "s-1").return_control
    first = asked.invoke(session_id="s-1", results=waits.answer("continue"))
    assert first.text == "[]"
    waits = asked.invoke("two", "s-1").return_control
    second = asked.invoke(session_id="s-1", results=waits.answer("continue"))
    assert second.text.count('"role": "user"') == 1
    assert "calls" not in second.text


def test_a_ppe_script_knows_what_was_said_before() -> None:
    flow = script("user: '{{history|length}} before: {{question}}'")
    asked, model = agent(flow, "a", "b")
    asked.invoke("one", "s-1")
    asked.invoke("two", "s-1")
    assert [texts(it) for it in model.requests] == [["0 before: one"], ["2 before: two"]]
