"""The whole agent, with a model whose replies are written beforehand."""

import shutil
from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.testing import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"


@pytest.fixture
def folder(tmp_path):
    """A copy, so that the index is made anew."""
    ignored = shutil.ignore_patterns(".orchestrator", "__pycache__")
    return shutil.copytree(FOLDER, tmp_path / "handbook", ignore=ignored)


def test_a_question_is_answered_from_the_handbook_with_its_source(folder):
    def cite(request):
        # The model cites by the short id that the passage has in the prompt.
        text = str(request.messages)
        source = text.split("<source>")[1].split("</source>")[0].strip("\\n ")
        said = "Your certificate has expired: renew it in the staff portal."
        return (
            f"<answer><answer_part><text>{said}</text>"
            f"<sources><source>{source}</source></sources></answer_part></answer>"
        )

    search = {
        "toolUseId": "t-1",
        "name": "GET__x_amz_knowledgebase_handbook__Search",
        "input": {"searchQuery": "error VPN-809"},
    }
    model = Citing([[{"toolUse": search}]], CLAUDE, cite)
    reply = Agent.load(folder, model=model).invoke("What does error VPN-809 mean?")
    assert reply.text == "Your certificate has expired: renew it in the staff portal."
    (citation,) = reply.citations
    (reference,) = citation["retrievedReferences"]
    assert reference["location"]["customDocumentLocation"] == {"id": "computers.md"}
    assert "VPN-809" in reference["content"]["text"]
    assert (folder / ".orchestrator" / "knowledge" / "handbook.sqlite").is_file()


class Citing(ScriptedModel):
    """Answers from a script, and after it with what `last` makes of the request."""

    def __init__(self, script, model_id, last):
        super().__init__([*script, "(made from the request)"], model_id)
        self.last = last

    def complete(self, request):
        reply = super().complete(request)
        if len(self.requests) > 1:
            reply.content = [{"text": self.last(request)}]
        return reply
