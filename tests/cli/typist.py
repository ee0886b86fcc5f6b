"""A conversation of `orchestrator chat` in which everything was typed beforehand."""

from orchestrator.cli.agents import load_agent
from orchestrator.cli.chat import talk_by_hand
from orchestrator.cli.return_control import read_given_results
from orchestrator.cli.talk import Talk
from orchestrator.cli.terminal import Terminal


class Typist:
    """A keyboard: questions, answers to what is asked, and what becomes of texts to edit."""

    def __init__(self, *questions, answers=(), edits=()):
        self.questions = iter(questions)
        self.answers = iter(answers)
        self.edits = iter(edits)
        self.asked = []

    def question(self):
        return next(self.questions, None)

    def answer(self, prompt):
        self.asked.append(prompt)
        return self._take(self.answers)

    def edit(self, text):
        self.asked.append(text)
        return self._take(self.edits)

    @staticmethod
    def _take(given):
        one = next(given)
        if isinstance(one, BaseException):
            raise one
        return one


def talk(
    folder, model, typist, capsys, trace=False, *, state=":memory:", yes=False, results=(), files=()
):
    """Talks to an agent, and returns what was written; `model` is a `--model=` option."""
    agent = load_agent(folder, model.removeprefix("--model="), "s-1", state)
    given = read_given_results(yes, results, agent.plan)
    conversation = Talk(Terminal(), agent, "s-1", {}, trace=trace, given=given)
    conversation.files = list(files)
    talk_by_hand(conversation, typist)
    return capsys.readouterr()
