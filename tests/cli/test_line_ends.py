"""Files of other editors: line ends of Windows, a byte order mark, names beyond ASCII."""

from pathlib import Path

import pytest

from orchestrator import Agent
from orchestrator.agent.lint import lint_agent
from orchestrator.errors import DefinitionError

FILES = {
    "agent.yaml": """\
agentName: books
instruction: |
  You sell books to everybody
  who asks for one.
foundationModel: scripted:réplies.jsonl
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      promptCreationMode: OVERRIDDEN
      basePromptTemplateFile: templates/schleife ü.json
actionGroups:
  - actionGroupName: shop
    apiSchema: {file: bücher/schnittstelle.json}
    actionGroupExecutor: {lambda: bücher/händler.py}
""",
    "réplies.jsonl": '"<answer>Ja."\n"<answer>Nein."\n',
    "templates/schleife ü.json": """\
{"system": "$instruction$ é $instructon$
 $tols$",
 "messages": [
  {"role": "user", "content": "$question$"},
  {"role": "assistant", "content": "$agent_scratchpad$"}]}
""",
    "templates/tools.j2": "ä\n{{ x.y( }}\n",
    "bücher/schnittstelle.json": """\
{"openapi": "3.0.0", "info": {"title": "t", "version": "1"},
 "paths": {"/a": {"get": {"operationId": "a", "description": "é",
 "responses": {}}}}}
""",
    "bücher/händler.py": "def lambda_handler(event, context):\n    return {}\n",
}


def write(folder: Path, ends: str, mark: bytes) -> Path:
    for name, text in FILES.items():
        file = folder / "Ägent" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(mark + text.replace("\n", ends).encode())
    return folder / "Ägent"


def places(folder: Path) -> list[tuple[str, str]]:
    return [(it.code, it.place.rpartition("/")[2]) for it in lint_agent(folder)]


ELSEWHERE = pytest.mark.parametrize(
    ("ends", "mark"), [("\n", b""), ("\r\n", b""), ("\r\n", b"\xef\xbb\xbf"), ("\r", b"")]
)


@ELSEWHERE
def test_findings_have_the_same_places(tmp_path: Path, ends: str, mark: bytes) -> None:
    folder = write(tmp_path, ends, mark)
    assert places(folder) == [
        ("unknown-placeholder", "schleife ü.json:1:29"),
        ("raw-line-breaks", "schleife ü.json:1:41"),
        ("unknown-placeholder", "schleife ü.json:2:2"),
        ("template", "tools.j2:2"),
    ]
    file = folder / "agent.yaml"
    file.write_bytes(file.read_bytes() + b"colour: red")
    with pytest.raises(DefinitionError) as caught:
        Agent.load(folder)
    assert (caught.value.line, caught.value.column) == (15, 1)


@ELSEWHERE
def test_a_turn_is_the_same(tmp_path: Path, ends: str, mark: bytes) -> None:
    folder = write(tmp_path, ends, mark)
    (folder / "templates" / "tools.j2").unlink()
    agent = Agent.load(folder)
    system = "You sell books to everybody\nwho asks for one.\n é $instructon$\n $tols$"
    assert agent.render("ORCHESTRATION", "Faust?").system == system
    assert [agent.invoke("Faust?").text, agent.invoke("Und nun?").text] == ["Ja.", "Nein."]
