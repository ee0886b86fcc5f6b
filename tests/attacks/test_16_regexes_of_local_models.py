"""Long inputs, descriptions and replies cost the embedded model's checks little."""

from __future__ import annotations

import pytest

from orchestrator import ActionGroup, Agent, action
from orchestrator.actions.base import Operation, Parameter
from orchestrator.engine.questions import ask_for_values
from orchestrator.models.answer_check import AnswerCheck
from orchestrator.models.base import CallFormat
from orchestrator.models.checked_reader import CheckedReader
from orchestrator.models.grounds import Grounds
from orchestrator.testing import ScriptedModel

# Where each of these took minutes, the suite's own time-out ends the run.
LONG = 200_000


@pytest.mark.parametrize("answer", [".", "!", "\n", "yes ", "no ", "好", "V-15 "])
def test_answers_to_a_question_about_consent(answer: str) -> None:
    done: list[str] = []

    @action
    def cancel(id: str) -> str:
        """Cancel something."""
        done.append(id)
        return "done"

    call = [{"toolUse": {"toolUseId": "1", "name": "g__cancel", "input": {"id": "V-15"}}}]
    model = ScriptedModel([call, "<answer>What?"], "local")
    agent = Agent("a", "You help.", model, action_groups=[ActionGroup("g", actions=[cancel])])
    agent.invoke("Cancel it", "s-1")
    assert agent.invoke(answer * LONG + "x", "s-1").text == "What?"
    assert done == []


@pytest.mark.parametrize("piece", ["." * 8, "!?", "\n", "word ", ".\n"])
def test_replies_without_an_end(piece: str) -> None:
    form = CallFormat("tool_use", (), False, "?", grounded=True)
    reader = CheckedReader(form, lambda sentence: True)
    shown = "".join(reader.feed(piece) for _ in range(5_000)) + reader.finish()
    assert shown.replace("<answer>", "").replace("</answer>", "").strip() == (piece * 5_000).strip()


@pytest.mark.parametrize("text", ["_", "\n", "a-", "1,", ".x", "9 "])
def test_sentences_that_are_held_against_the_conversation(text: str) -> None:
    check = AnswerCheck(Grounds(said=("hello",), returned=(), answered=(), now="hello"))
    assert check.find(text * 10_000) is not None


def test_descriptions_of_parameters() -> None:
    parameter = Parameter("id", "string", "Id" + " " * LONG + "of it", True)
    operation = Operation("g", "f", "", (parameter,))
    assert ask_for_values(operation.parameters) == "Could you tell me the id?"
