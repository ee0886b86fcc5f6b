"""The page of the definition says what `orchestrator lint` says, with places, and the dialects."""

from __future__ import annotations

from pathlib import Path

from workbench_support import workbench, write_shop

from orchestrator.agent.lint import lint_agent

AT = "/agents/shop/definition"
HOSTILE = "<img src=x onerror=alert(1)>"


def test_findings_are_those_of_lint_with_their_places(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    (folder / "templates").mkdir()
    (folder / "templates/orchestation.txt").write_text("x")
    (folder / "templates/orchestration.json").write_text(
        '{"system": "$instruction$ $nonsense$", "messages": [\n'
        '{"role": "user", "content": [{"text": "$question$"}]},\n'
        '{"role": "assistant", "content": [{"text": "$agent_scratchpad$"}]}]}'
    )
    with workbench(folder) as bench:
        told = bench.client.get(AT).json
        assert [
            {name: one[name] for name in found.as_dict()}
            for one, found in zip(told["findings"], lint_agent(folder), strict=True)
        ] == [found.as_dict() for found in lint_agent(folder)]
        places = {(one["name"], one["line"]): one for one in told["findings"]}
        unused = places["templates/orchestation.txt", None]
        assert "did you mean 'orchestration.txt'?" in unused["suggestion"]
        nonsense = places["templates/orchestration.json", 1]
        assert "$nonsense$" in nonsense["source"]
        assert "$nonsense$" in bench.client.page(AT).text
        strict = bench.client.get(f"{AT}?strict=1").json["findings"]
        assert len(strict) >= len(told["findings"])


def test_an_agent_that_does_not_load_has_its_findings(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        file = bench.folder / "agent.yaml"
        text = file.read_text().replace("instruction:", f"instructoin: {HOSTILE}\nx:")
        file.write_text(text)
        told = bench.client.get(AT).json
        assert told["wrong"]
        (finding, *_) = [one for one in told["findings"] if "instructoin" in one["message"]]
        assert (finding["name"], finding["source"]) == (
            "agent.yaml",
            f"instructoin: {HOSTILE}",
        )
        page = bench.client.page(AT).text
        assert "<img" not in page
        assert "The agent does not load." in page


def test_dialects_say_which_stages_use_them_and_which_are_the_agents_own(tmp_path: Path) -> None:
    folder = write_shop(tmp_path)
    own = folder / "templates/mine"
    own.mkdir(parents=True)
    (own / "dialect.yaml").write_text('extends: tool-use\npatterns: ["mine.*"]\n')
    with workbench(folder) as bench:
        dialects = {one["name"]: one for one in bench.client.get(AT).json["dialects"]}
        assert "ORCHESTRATION" in dialects["tool-use"]["stages"]
        assert dialects["mine"]["own"]
        assert dialects["mine"]["patterns"] == ["mine.*"]
        assert dialects["claude-3"]["parser"] == "xml"
        assert not dialects["claude-3"]["own"]
        assert next(iter(dialects)) == "tool-use"
