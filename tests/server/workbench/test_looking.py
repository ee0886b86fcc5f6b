"""Pages without a browser: what they show is what the engine's own objects say."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from workbench_support import MODEL, Workbench, answer, price, workbench, write_shop

from orchestrator.engine.plan import Plan
from orchestrator.engine.plan_snapshot import restore_plan
from orchestrator.errors import ThrottlingError
from orchestrator.server.workbench.projects import FolderProject

AT = "/agents/shop/sessions/s-1"


class Pieces(HTMLParser):
    """The texts of the prompt's pieces, with their origins."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._inside = False
        self._origin: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("class") == "prompt":
            self._inside = True
        if given.get("class") == "side":
            self._inside = False
        if self._inside and tag == "span" and (given.get("class") or "").startswith("o"):
            self._origin = given.get("data-o") or "template"
            self.found.append((self._origin, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._origin = None

    def handle_data(self, data: str) -> None:
        if self._inside and self._origin is not None:
            origin, text = self.found[-1]
            self.found[-1] = origin, text + data


def pieces_of(page: str) -> list[tuple[str, str]]:
    parser = Pieces()
    parser.feed(page)
    return parser.found


def ask(bench: Workbench, question: str = "How much is tea?") -> str:
    bench.agent.invoke(question, "s-1")
    return bench.agent.turns("s-1")[-1].id


def test_agents_sessions_turns_and_steps_have_pages_and_json(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        turn = ask(bench)
        assert bench.client.get("/").json["agents"][0]["name"] == "shop"
        (session,) = bench.client.get("/agents/shop").json["sessions"]
        assert session["id"] == "s-1"
        (told,) = bench.client.get(AT).json["turns"]
        assert (told["question"], told["text"]) == ("How much is tea?", "Twelve.")
        assert told["calls"][0]["arguments"] == {"item": "tea"}
        assert told["totals"]["model_calls"] == 2
        steps = bench.client.get(f"{AT}/turns/{turn}").json["steps"]
        assert [it["kind"] for it in steps] == ["model", "action", "model"]
        trace = bench.client.get(f"{AT}/turns/{turn}/trace").json
        assert trace == json.loads(json.dumps(bench.agent.turns("s-1")[0].trace, default=str))
        for path in ("/", "/agents/shop", AT, f"{AT}/turns/{turn}", f"{AT}/turns/{turn}/steps/2"):
            page = bench.client.page(path)
            assert page.status == 200, path
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert (
                "How much is tea?" in page.text or path in ("/", "/agents/shop") or "steps" in path
            )


@pytest.mark.parametrize(
    "question", ["How much is tea?", "Was kostet <b>Tee</b>? 😀 & more\n$tools$"]
)
def test_the_pieces_of_a_prompt_are_the_prompt(question: str, tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        turn = ask(bench, question)
        step = f"{AT}/turns/{turn}/steps/3"
        prompt = bench.agent.turns("s-1")[0].steps()[2].prompt()
        assert bench.client.get(step).json["prompt"] == json.loads(json.dumps(prompt.as_dict()))
        found = pieces_of(bench.client.page(step).text)
        # The template stands beside the prompt, with the same classes, behind it.
        texts = "".join(text for _, text in found)
        assert str(prompt.system) in texts
        assert ("question", question) in found
        assert any(origin == "action result" and "12 euros" in text for origin, text in found)
        assert bench.model.requests[1].system == str(prompt.system)


def test_what_the_step_before_had_is_marked(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        turn = ask(bench)
        page = bench.client.page(f"{AT}/turns/{turn}/steps/3").text
        classes = re.findall(r'<details open class="(\w*)"><summary>([^<]*)', page)
        assert classes == [
            ("same", "system"),
            ("same", "user"),
            ("new", "assistant "),
            ("new", "assistant · call of prices__get_price "),
            ("new", "user · result "),
            ("same", "tools"),
        ]


def test_the_template_is_shown_as_it_was_then(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        turn = ask(bench)
        templates = bench.folder / "templates"
        templates.mkdir()
        (templates / "orchestration.json").write_text(
            '{"system": "CHANGED", "messages": [{"role": "user", "content": "$question$"}]}'
        )
        told = bench.client.get(f"{AT}/turns/{turn}/steps/1").json
        assert told["turn"]["has_changed"]
        assert not told["turn"]["has_todays_prompts"]
        assert told["prompt"]["system"] == bench.model.requests[0].system
        assert "CHANGED" not in told["template"]["text"]
        page = bench.client.page(f"{AT}/turns/{turn}/steps/1").text
        assert "Prompts are shown as they were sent then" in unescape(page)


def test_an_agent_that_is_wrong_says_so_and_is_read_again(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        ask(bench)
        file = bench.folder / "agent.yaml"
        right = file.read_text()
        file.write_text(right + "nonsense: 1\n")
        told = bench.client.get("/agents/shop").json
        assert "nonsense" in told["wrong"]
        assert [it["id"] for it in told["sessions"]] == ["s-1"]
        refused = bench.client.get(AT)
        assert (refused.status, refused.json["diagnostics"][0]["line"]) == (
            422,
            right.count("\n") + 1,
        )
        assert bench.client.page(AT).status == 422
        file.write_text(right)
        assert bench.client.get("/agents/shop").json["wrong"] == ""


def test_one_wrong_agent_is_shown_beside_the_others_until_it_is_mended(tmp_path: Path) -> None:
    own = tmp_path / "broken"
    own.mkdir()
    (own / "agent.yaml").write_text("agentName: other\ninstructions: You help.\n")
    with workbench(tmp_path, [answer("Yes.")], own) as bench:
        ask(bench)
        shop, broken = bench.client.get("/").json["agents"]
        assert (shop["name"], shop["wrong"], shop["sessions"]) == ("shop", "", 1)
        assert broken["name"] == "broken"
        assert "agent.yaml:2:1" in broken["wrong"]
        page = unescape(bench.client.page("/").text)
        assert "The agent does not load." in page
        assert "did you mean 'instruction'" in page
        findings = bench.client.get("/agents/broken/definition").json["findings"]
        assert (findings[0]["name"], findings[0]["line"]) == ("agent.yaml", 2)
        (own / "agent.yaml").write_text(
            f"agentName: other\nfoundationModel: {MODEL}\ninstruction: {'You help people. ' * 4}\n"
        )
        mended = bench.client.get("/").json["agents"][1]
        assert (mended["name"], mended["wrong"]) == ("other", "")


def test_what_is_not_there_is_404_in_both_forms(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        turn = ask(bench)
        for path in (
            "/agents/none",
            "/nothing",
            f"{AT}/turns/none",
            f"{AT}/turns/{turn}/steps/9",
            "/static/none.js",
            "/static/..%2fapp.py",
        ):
            assert bench.client.get(path).status == 404, path
            page = bench.client.page(path)
            assert page.status == 404
            assert "That did not work" in page.text


def test_a_session_with_the_name_of_the_folder_above_can_be_opened(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        bench.agent.invoke("So?", "..")
        links = re.findall(
            rf'href="{bench.client.root}(/agents/shop/sessions/[^"]*)"',
            bench.client.page("/agents/shop").text,
        )
        assert links == ["/agents/shop/sessions/~.."]
        assert bench.client.get("/agents/shop/sessions/~..").json["turns"][0]["question"] == "So?"


def test_an_agents_definition_is_shown_with_what_is_doubtful(tmp_path: Path) -> None:
    with workbench(tmp_path) as bench:
        told = bench.client.get("/agents/shop/definition").json
        assert told["operations"][0]["name"] == "prices::get_price"
        assert {it["stage"] for it in told["stages"] if it["enabled"]} >= {"ORCHESTRATION"}
        templates = bench.folder / "templates"
        templates.mkdir()
        (templates / "orchestration.json").write_text(
            '{"system": "$instructoin$", "messages": [{"role": "user", "content": "$question$"}]}'
        )
        (finding,) = [
            it
            for it in bench.client.get("/agents/shop/definition").json["findings"]
            if "instructoin" in it["message"]
        ]
        assert finding["file"] == str(templates / "orchestration.json")
        assert "instructoin" in bench.client.page("/agents/shop/definition").text


def test_what_is_remembered_is_shown_and_forgotten(tmp_path: Path) -> None:
    summary = '<summary><topic name="tea">The user likes tea.</topic></summary>'
    own = write_shop(tmp_path)
    with (own / "agent.yaml").open("a") as file:
        file.write("memoryConfiguration:\n  enabledMemoryTypes: [SESSION_SUMMARY]\n")
    with workbench(own, [answer("Yes."), summary]) as bench:
        assert bench.client.get("/agents/shop/memory").json["memories"] == []
        bench.agent.invoke("I like tea.", "s-1", memory_id="ana")
        bench.agent.end_session("s-1")
        (told,) = bench.client.get("/agents/shop/memory").json["memories"]
        assert told["id"] == "ana"
        assert "likes tea" in told["sessions"][0]["sessionSummary"]["summaryText"]
        assert "likes tea" in bench.client.page("/agents/shop/memory").text
        assert bench.client.post("/agents/shop/memory/forget", {}).status == 400
        forgotten = bench.client.post("/agents/shop/memory/forget", {"memory": "ana"})
        assert forgotten.status == 200
        assert bench.client.get("/agents/shop/memory").json["memories"] == []
    assert (own / ".orchestrator" / "memory.sqlite").is_file()


def test_what_is_no_number_or_no_list_is_refused_with_a_message(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Twelve.")]) as bench:
        turn = f"{AT}/turns/{ask(bench)}"
        many = "9" * 5_000
        assert bench.client.page(f"{turn}?from={many}").status == 200
        assert bench.client.page(f"{turn}/steps/{many}").status == 404
        results = {"results": {many: "x"}}
        for path, body in (
            (f"{AT}/ask", {"question": "So?", "attributes": [1]}),
            (f"{AT}/ask", {"question": "So?", "prompt_attributes": 5}),
            (f"{AT}/ask", {"question": "So?", "files": 5}),
            (f"{AT}/ask", {"question": "So?", "files": {"a": 1}}),
            (f"{turn}/steps/1/preview", results),
        ):
            told = bench.client.post(path, body)
            assert (told.status, bool(told.json["message"])) == (400, True), body


def test_a_fault_of_its_own_is_told_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object) -> None:
        raise ZeroDivisionError("secret")

    with workbench(tmp_path) as bench:
        monkeypatch.setattr(FolderProject, "agent", fail)
        for told in (bench.client.get(AT), bench.client.post(f"{AT}/fork", {"turn": "x"})):
            assert told.status == 500
            assert told.json["message"] == (
                "the workbench failed here (ZeroDivisionError); its log says where"
            )
        assert bench.client.page(AT).status == 500
    assert [it.levelname for it in caplog.records if "the workbench failed at" in it.message] == [
        "ERROR"
    ] * 3


def test_a_turn_that_failed_before_its_first_step_says_how_long_it_took(tmp_path: Path) -> None:
    failing = ThrottlingError("slow down", resource=MODEL)
    ticks = iter(range(0, 1_000_000_000_000, 5_000_000_000))  # five seconds each time
    with workbench(tmp_path, [failing]) as bench:
        bench.projects.all()[0].sessions.clock = lambda: next(ticks)
        with pytest.raises(ThrottlingError):
            bench.agent.invoke("How much is tea?", "s-1")
        (turn,) = bench.agent.turns("s-1")
        took = (turn.end_at - turn.at) / 1e6
        assert took >= 5_000
        (shown,) = bench.client.get(AT).json["turns"]
        assert shown["milliseconds"] == took
        assert bench.client.get(f"{AT}/turns/{turn.id}").json["milliseconds"] == took
        page = bench.client.page(f"{AT}/turns/{turn.id}").text
        assert "The turn ended before any step was done." in page


def test_the_templates_of_then_are_compiled_once_for_all_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workbench(tmp_path, [answer("One."), answer("Two."), answer("Three.")]) as bench:
        for question in "abc":
            bench.agent.invoke(question, "s-1")
        file = bench.folder / "agent.yaml"
        file.write_text(file.read_text().replace("a shop.", "another shop."))
        restored: list[str] = []

        def restore(plan: Plan, snapshot: str) -> Plan | None:
            restored.append(snapshot)
            return restore_plan(plan, snapshot)

        monkeypatch.setattr("orchestrator.engine.plan_snapshot.restore_plan", restore)
        assert len(bench.client.get(AT).json["turns"]) == 3
        assert len(restored) == 1


def test_what_nobody_sees_in_arguments_is_named(tmp_path: Path) -> None:
    with workbench(tmp_path, [price("tea\u202e001\u200b"), answer("Twelve.")]) as bench:
        bench.agent.invoke("How much is it?", "s-1")
        (turn,) = bench.agent.turns("s-1")
        for path in (AT, f"{AT}/turns/{turn.id}"):
            page = unescape(bench.client.page(path).text)
            assert 'item="tea\\u{202e}001\\u{200b}"' in page
