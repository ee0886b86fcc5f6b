"""Templates and scripts of an agent's folder: opened, rendered and run in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench_support import Workbench, workbench, write_shop

AT = "/agents/shop/files"
PROMPTY = """---
name: greeting
inputs:
  question:
    type: string
    default: Who are you?
---
system:
You greet people.

user:
{{question}}
"""
HOSTILE = "<img src=x onerror=alert(1)>"


def write(folder: Path) -> Path:
    own = write_shop(folder)
    (own / "prompts").mkdir()
    (own / "prompts/greeting.prompty").write_text(PROMPTY)
    (own / "prompts/note.txt").write_text("no template")
    (own / "prompts/sum.yaml").write_text(
        "name: sum\ntemplate: |\n  Sum {{$input}}\ntemplate_format: semantic-kernel\n"
    )
    (own / "poem.j2").write_text("A poem about {{ subject }}.\n")
    (own / "story.pl").write_text("Tell of $subject. -> story\n")
    return own


def find(bench: Workbench, name: str) -> str:
    files = bench.client.get(AT).json["files"]
    return f"{AT}/{next(one['key'] for one in files if one['name'] == name)}"


def test_templates_and_scripts_are_listed_and_nothing_else(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "link.prompty").symlink_to(folder / "prompts/greeting.prompty")
    (folder / "templates").mkdir()
    (folder / "templates/partial.j2").write_text("x")
    with workbench(folder) as bench:
        files = bench.client.get(AT).json["files"]
        assert [(one["name"], one["kind"], one["language"]) for one in files] == [
            ("poem.j2", "template", "jinja2"),
            ("prompts/greeting.prompty", "template", "prompty"),
            ("prompts/sum.yaml", "template", "semantic-kernel"),
            ("story.pl", "script", "pl"),
        ]
        assert bench.client.get(f"{AT}/0123456789ab").status == 404


def test_a_template_is_rendered_with_the_origin_of_its_pieces(tmp_path: Path) -> None:
    with workbench(write(tmp_path)) as bench:
        file = find(bench, "prompts/greeting.prompty")
        shown = bench.client.get(file).json
        assert shown["text"] == PROMPTY
        (one,) = shown["inputs"]
        assert (one["name"], one["default"]) == ("question", "Who are you?")
        given = {"inputs": {"question": HOSTILE}}
        found = bench.client.post(f"{file}/render", given).json
        (message,) = found["prompt"]["messages"]
        assert message["content"][0]["text"].strip() == HOSTILE
        assert "question" in {span["origin"] for span in message["spans"]}
        assert 'data-o="question"' in found["html"]
        assert "<img" not in found["html"]


def test_a_template_that_is_wrong_is_a_finding_with_its_place(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "poem.j2").write_text("A poem\nabout {{ subject }.\n")
    with workbench(folder) as bench:
        file = find(bench, "poem.j2")
        (finding,) = bench.client.get(file).json["findings"]
        assert (finding["name"], finding["line"], finding["severity"]) == ("poem.j2", 2, "error")
        assert finding["source"] == "about {{ subject }."
        found = bench.client.post(f"{file}/render", {"inputs": {}}).json
        assert found["findings"][0]["line"] == 2
        assert found["html"] == ""


def run(bench: Workbench, file: str, **body: Any) -> list[dict[str, Any]]:
    answered = bench.client.post(f"{file}/run", body)
    assert answered.status == 200, answered.text
    return [json.loads(line) for line in answered.text.splitlines()]


def test_a_template_is_run_with_the_workbenchs_model(tmp_path: Path) -> None:
    with workbench(write(tmp_path), ["I am a shop."]) as bench:
        file = find(bench, "prompts/greeting.prompty")
        *_, end = run(bench, file, inputs={"question": "And you?"})
        assert (end["type"], end["text"]) == ("end", "I am a shop.")
        assert "And you?" in str(bench.model.requests[0].messages)


def test_a_script_is_rendered_and_run(tmp_path: Path) -> None:
    with workbench(write(tmp_path), ["Once upon a time."]) as bench:
        file = find(bench, "story.pl")
        assert [one["name"] for one in bench.client.get(file).json["inputs"]] == ["subject"]
        given = {"subject": "the moon"}
        found = bench.client.post(f"{file}/render", {"inputs": given}).json
        assert "Tell of the moon." in json.dumps(found["prompt"])
        assert found["place"].startswith("line ")
        *events, end = run(bench, file, inputs=given)
        assert {"flow"} == {one["type"] for one in events}
        assert "Once upon a time." in json.dumps(end["output"])
        assert end["state"] is None


def test_a_script_that_waits_goes_on(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "wait.pl").write_text("Say one. -> a\n(bp)\nSay two. -> b\n")
    with workbench(folder, ["one", "two"]) as bench:
        file = find(bench, "wait.pl")
        *_, end = run(bench, file, inputs={})
        assert end["waits_for"] == "breakpoint"
        gone_on = bench.client.post(f"{file}/resume", {"state": end["state"], "mode": "continue"})
        last = json.loads(gone_on.text.splitlines()[-1])
        assert last["waits_for"] == ""
        assert last["variables"]["b"] == "two"
        spoilt = json.dumps({**json.loads(end["state"]), "line": 99})
        refused = bench.client.post(f"{file}/resume", {"state": spoilt})
        assert json.loads(refused.text.splitlines()[-1])["type"] == "error"


def test_what_is_asked_for_wrongly_is_refused(tmp_path: Path) -> None:
    with workbench(write(tmp_path)) as bench:
        file = find(bench, "prompts/greeting.prompty")
        assert bench.client.post(f"{file}/render", {"inputs": []}).status == 400
        assert bench.client.post(f"{file}/render", {"inputs": {"question": 1}}).status == 400
        *_, end = run(bench, file, inputs={"question": 1})
        assert end["type"] == "error"
        assert bench.client.post(f"{file}/run", {"model": 1}).status == 400
