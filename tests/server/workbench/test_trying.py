"""What if: a call is changed, shown, run again, compared, and its template saved."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from workbench_support import (
    MODEL,
    Workbench,
    answer,
    call,
    made_calls,
    price,
    streaming,
    workbench,
    write_shop,
)

from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.support import threads as action_threads
from orchestrator.testing import ScriptedModel

AT = "/agents/shop/sessions/s-1"
OTHER = '{"system": "OTHER $instruction$", "messages": [{"role": "user", "content": "$question$"}]}'


def asked(bench: Workbench, question: str = "How much is tea?") -> str:
    """The turn's address, after one call and an answer."""
    bench.agent.invoke(question, "s-1")
    return f"{AT}/turns/{bench.agent.turns('s-1')[-1].id}"


def test_a_changed_template_is_shown_at_once_with_what_lint_says(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        step = f"{asked(bench)}/steps/3"
        same = bench.client.post(f"{step}/preview", {}).json
        sent = bench.client.get(step).json["prompt"]
        assert same["prompt"] == sent
        told = bench.client.post(f"{step}/preview", {"template": OTHER, "instruction": "Be brief."})
        assert told.json["prompt"]["system"] == "OTHER Be brief."
        assert 'data-o="instruction"' in told.json["html"]
        misspelt = OTHER.replace("$instruction$", "$instructoin$")
        (finding,) = [
            it
            for it in bench.client.post(f"{step}/preview", {"template": misspelt}).json["findings"]
            if "instructoin" in it["message"]
        ]
        assert finding["line"] == 1
        broken = bench.client.post(f"{step}/preview", {"template": '{"system": '}).json
        assert (broken["html"], broken["findings"][0]["severity"]) == ("", "error")
        other = bench.client.post(f"{step}/preview", {"results": {"1": "tea is free"}}).json
        assert "tea is free" in str(other["prompt"]["messages"])
        assert "12 euros" not in str(other["prompt"]["messages"])
        results: tuple[Any, ...] = ({"1": 2}, [], {"9": "x"}, {"x": "y"})
        for bad in ({"template": 1}, *({"results": it} for it in results)):
            assert bench.client.post(f"{step}/preview", bad).status == 400
        assert made_calls(bench.folder) == ["tea"]
        assert len(bench.client.get("/agents/shop").json["sessions"]) == 1


def test_a_run_takes_recorded_results_and_asks_for_others(tmp_path: Path) -> None:
    script = [
        price(),
        answer("Twelve."),
        price(),
        price("milk"),
        price("salt"),
        answer("All told."),
    ]
    with workbench(tmp_path, script) as bench:
        step = f"{asked(bench)}/steps/1"
        with streaming(bench, f"{step}/run", {"template": OTHER}) as lines:
            forked = next(lines)
            assert forked == {"type": "forked", "session": "s-1-fork-1"}
            at = f"/agents/shop/sessions/{forked['session']}"
            for wanted, decision in (("milk", {"text": "milk is 3"}), ("salt", {"run": True})):
                asks = next(it for it in lines if it["type"] == "asks")
                assert (asks["name"], asks["arguments"]) == ("prices::get_price", {"item": wanted})
                assert bench.client.post(f"{at}/decide", {"id": "no", **decision}).status == 404
                assert bench.client.post(f"{at}/decide", {"id": asks["id"]}).status == 400
                decided = bench.client.post(f"{at}/decide", {"id": asks["id"], **decision})
                assert decided.status == 200
            assert list(lines)[-1]["text"] == "All told."
        # Tea was recorded, and milk was typed: neither was called.
        assert made_calls(bench.folder) == ["tea", "salt"]
        assert bench.model.requests[2].system.startswith("OTHER You answer")
        assert "tea costs 12 euros" in str(bench.model.requests[3].messages)
        assert "milk is 3" in str(bench.model.requests[4].messages)
        both = bench.client.get("/agents/shop/compare?left=s-1&right=s-1-fork-1").json
        assert [side["turn"]["text"] for side in both["sides"]] == ["Twelve.", "All told."]
        assert ["+", "OTHER You answer questions about the prices of a shop."] in both["difference"]
        page = bench.client.page("/agents/shop/compare?left=s-1&right=s-1-fork-1")
        assert page.status == 200
        assert bench.agent.turns("s-1")[0].text == "Twelve."


def test_an_unchanged_run_from_each_step_sends_the_same_and_calls_nothing(tmp_path: Path) -> None:
    replies = [price(), price("milk"), answer("Fifteen.")]
    with workbench(tmp_path, [*replies, *replies, *replies[1:], *replies[2:]]) as bench:
        turn = asked(bench)
        sent = [(it.system, list(it.messages)) for it in bench.model.requests]
        for call, step in enumerate((1, 3, 5)):
            before = len(bench.model.requests)
            told = bench.client.post(f"{turn}/steps/{step}/run", {})
            assert told.lines[-1]["text"] == "Fifteen."
            again = [(it.system, list(it.messages)) for it in bench.model.requests[before:]]
            assert again == sent[call:]
        assert made_calls(bench.folder) == ["tea", "milk"]


def test_a_run_that_nobody_watches_calls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The action has a new thread, which ends soon after it.
    monkeypatch.setattr(action_threads, "_places", {})
    monkeypatch.setattr(action_threads, "_IDLE_SECONDS", 0.05)
    before = set(threading.enumerate())
    script = [price(), answer("Twelve."), price("milk"), answer("Never.")]
    with workbench(tmp_path, script) as bench:
        step = f"{asked(bench)}/steps/1"
        deleted = threading.Event()
        delete = bench.agent.sessions.store.delete
        bench.agent.sessions.store.delete = lambda key: (delete(key), deleted.set())  # type: ignore[method-assign, assignment]
        with streaming(bench, f"{step}/run", {}) as lines:
            assert any(it["type"] == "asks" for it in lines)
        # Half a run is nothing to go on from: its session goes, too.
        assert deleted.wait(60)
        sessions = bench.client.get("/agents/shop").json["sessions"]
        assert [it["id"] for it in sessions] == ["s-1"]
        for thread in set(threading.enumerate()) - before:
            if "action" in thread.name:
                thread.join(10)
        assert made_calls(bench.folder) == ["tea"]
        assert len(bench.model.requests) == 3


def test_a_template_is_saved_after_its_difference_was_shown(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Twelve."), answer("Again.")]) as bench:
        step = f"{asked(bench)}/steps/1"
        shown = bench.client.post(f"{step}/save", {"template": OTHER}).json
        file = bench.folder / "templates" / "tool-use" / "orchestration.json"
        assert (shown["file"], shown["digest"]) == ("templates/tool-use/orchestration.json", "")
        assert ["+", OTHER] in shown["difference"]
        assert not file.exists()
        saved = bench.client.post(f"{step}/save", {"template": OTHER, "digest": shown["digest"]})
        assert saved.json["saved"]
        assert file.read_text() == OTHER
        bench.agent.invoke("So?", "s-2")
        assert bench.model.requests[1].system.startswith("OTHER")
        # Somebody else's change is not lost.
        again = bench.client.post(f"{step}/save", {"template": OTHER + " ", "digest": ""})
        assert again.status == 409
        assert file.read_text() == OTHER
        for bad in ("", '{"system": '):
            assert bench.client.post(f"{step}/save", {"template": bad, "digest": ""}).status in (
                400,
                422,
            )


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_no_template_is_saved_through_a_link(kind: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "orchestration.json").write_text(OTHER)
    with workbench(tmp_path / "in", [answer("Yes.")]) as bench:
        step = f"{asked(bench)}/steps/1"
        own = bench.folder / "templates" / "tool-use"
        if kind == "file":
            own.mkdir(parents=True)
            (own / "orchestration.json").symlink_to(outside / "nothing.json")
        else:
            own.parent.mkdir()
            own.symlink_to(outside)
        told = bench.client.post(f"{step}/save", {"template": OTHER + " ", "digest": ""})
        assert told.status in (400, 422)
        assert (outside / "orchestration.json").read_text() == OTHER
        assert not (outside / "nothing.json").exists()


def test_only_a_model_call_can_be_changed(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        turn = asked(bench)
        for action in ("preview", "run", "save"):
            assert bench.client.post(f"{turn}/steps/2/{action}", {}).status == 400
        assert bench.client.get(f"{turn}/steps/2/what-if").status == 400
        assert bench.client.page(f"{turn}/steps/3/what-if").status == 200


ATTRIBUTES = """
def lambda_handler(event, context):
    body = {"responseBody": {"TEXT": {"body": "No such tea."}}, "responseState": "REPROMPT"}
    return {
        "messageVersion": "1.0",
        "response": {
            "actionGroup": event["actionGroup"],
            "function": event["function"],
            "functionResponse": body,
        },
        "sessionAttributes": {**event["sessionAttributes"], "cart": "tea"},
        "promptSessionAttributes": {"shelf": "TOP-SHELF"},
    }
"""
TOOLS = """
agentName: shop
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You answer questions about the prices of a shop with the tools that you have.
actionGroups:
  - actionGroupName: prices
    actionGroupExecutor:
      lambda: handler.py
    functionSchema:
      functions:
        - name: get_price
          description: The price.
          parameters:
            item: {type: string, description: What., required: true}
"""


def write_agent(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_a_recorded_result_is_taken_with_all_that_it_changed(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "shop", agent_yaml=TOOLS, handler_py=ATTRIBUTES)
    replies = [price(), answer("None.")]
    with workbench(folder, [*replies, *replies]) as bench:
        turn = asked(bench)
        assert bench.client.post(f"{turn}/steps/1/run", {}).lines[-1]["text"] == "None."
        first, second, again, last = bench.model.requests
        assert (again.system, list(again.messages)) == (first.system, list(first.messages))
        assert "TOP-SHELF" in str((second.system, second.messages))
        assert (last.system, list(last.messages)) == (second.system, list(second.messages))
        records = [bench.agent.turns(it)[0].steps()[1].record for it in ("s-1", "s-1-fork-1")]
        for name in ("text", "state", "attributes", "prompt_attributes"):
            assert records[1][name] == records[0][name], name


TEAM = """
agentName: boss
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You answer questions with the help of two agents, one for each matter that is asked.
agentCollaboration: SUPERVISOR
agentCollaborators:
  - {collaboratorName: alpha, agentDescriptor: {folder: alpha}, collaborationInstruction: Teas.}
  - {collaboratorName: beta, agentDescriptor: {folder: beta}, collaborationInstruction: Milks.}
"""


class TeamModel(ScriptedModel):
    """Has both collaborators look up a price at the same time, a new one in each turn."""

    def complete(self, request: ModelRequest) -> ModelReply:
        text = str(request.messages)
        found = [one for one in ("alpha", "beta") if f"DO-{one}" in text]
        if "toolResult" in text:
            content: Any = [{"text": answer("Done.")}]
        elif len(found) == 1:
            self.requests.append(request)
            content = price(f"{found[0]}-{len(self.requests)}")
        else:
            content = [
                {
                    "toolUse": {
                        "toolUseId": f"t-{one}",
                        "name": "AgentCommunication__sendMessage",
                        "input": {"recipient": one, "content": f"DO-{one}"},
                    }
                }
                for one in ("alpha", "beta")
            ]
        reason = "tool_use" if "toolUse" in content[-1] else "end_turn"
        return ModelReply(content, reason, Usage(1, 1))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        return self.complete(request)


def test_a_decision_is_about_the_call_on_its_card(tmp_path: Path) -> None:
    boss = write_agent(tmp_path / "boss", agent_yaml=TEAM)
    for name in ("alpha", "beta"):
        (write_shop(boss / "new")).rename(boss / name)
        file = boss / name / "agent.yaml"
        file.write_text(file.read_text().replace("agentName: shop", f"agentName: {name}"))
    with workbench(boss, model=TeamModel([], model_id=MODEL)) as bench:
        bench.agent.invoke("Both?", "s-1")
        before = {name: made_calls(boss / name) for name in ("alpha", "beta")}
        at = "/agents/boss/sessions/s-1"
        turn = bench.agent.turns("s-1")[0].id
        with streaming(bench, f"{at}/turns/{turn}/steps/1/run", {}) as lines:
            cards = [next(it for it in lines if it["type"] == "asks") for _ in before]
            assert {it["agent"] for it in cards} == {"alpha", "beta"}
            assert cards[0]["id"] != cards[1]["id"]
            decide = f"{at}-fork-1/decide"
            called = bench.client.post(decide, {"id": cards[0]["id"], "run": True})
            typed = bench.client.post(decide, {"id": cards[1]["id"], "text": "free"})
            assert (called.status, typed.status) == (200, 200)
            assert list(lines)[-1]["type"] == "end"
        name, other = (it["agent"] for it in cards)
        assert made_calls(boss / name) == [*before[name], cards[0]["arguments"]["item"]]
        assert made_calls(boss / other) == before[other]


def test_a_collaborators_call_runs_again_and_its_template_stays(tmp_path: Path) -> None:
    boss = write_agent(tmp_path / "boss", agent_yaml=TEAM)
    for name in ("alpha", "beta"):
        write_shop(boss / "new").rename(boss / name)
    send = call("AgentCommunication__sendMessage", recipient="alpha", content="Tea?")
    replies = [send, price(), answer("Twelve."), answer("It is twelve.")]
    with workbench(boss, [*replies, *replies[2:]]) as bench:
        bench.agent.invoke("How much?", "s-1")
        turn = bench.agent.turns("s-1")[0]
        (index,) = [it.index for it in turn.steps() if it.text == replies[2]]
        step = f"/agents/boss/sessions/s-1/turns/{turn.id}/steps/{index}"
        form = bench.client.get(f"{step}/what-if").json
        assert (form["collaborator"], form["is_current"]) == ("alpha", True)
        assert "readonly" in bench.client.page(f"{step}/what-if").text
        shown = bench.client.post(f"{step}/preview", {"results": {"1": "free"}}).json
        assert "free" in str(shown["prompt"]["messages"])
        for action, change in (("run", {"model": "local"}), ("save", {"template": OTHER})):
            refused = bench.client.post(f"{step}/{action}", change)
            assert refused.status == 400
            assert "is of the collaborator 'alpha'" in refused.text
        told = bench.client.post(f"{step}/run", {}).lines
        assert told[-1]["text"] == "It is twelve."
        again = [(it.system, list(it.messages)) for it in bench.model.requests]
        assert again[4:] == again[2:4]
        assert made_calls(boss / "alpha") == ["tea"]


def test_runs_of_two_agents_in_sessions_of_one_name_are_two(tmp_path: Path) -> None:
    shop = write_shop(tmp_path)
    bank = tmp_path / "bank"
    shutil.copytree(shop, bank)
    file = bank / "agent.yaml"
    file.write_text(file.read_text().replace("agentName: shop", "agentName: bank"))
    script = [price(), answer("Yes."), price(), answer("Yes."), price("SHOP"), price("BANK")]
    with workbench(shop, [*script, answer("End."), answer("End.")], bank) as bench:
        paths = {}
        for project in bench.projects.all():
            project.agent().invoke("So?", "s-1")
            turn = project.agent().turns("s-1")[0].id
            paths[project.key] = f"/agents/{project.key}/sessions/s-1/turns/{turn}/steps/1/run"
        with streaming(bench, paths["shop"], {}) as first:
            card = next(it for it in first if it["type"] == "asks")
            with streaming(bench, paths["bank"], {}) as second:
                assert any(it["type"] == "asks" for it in second)
                decision = {"id": card["id"], "run": True}
                wrong = bench.client.post("/agents/bank/sessions/s-1-fork-1/decide", decision)
                assert wrong.status == 404
                right = bench.client.post("/agents/shop/sessions/s-1-fork-1/decide", decision)
                assert right.status == 200
                assert list(first)[-1]["type"] == "end"
        assert (made_calls(shop), made_calls(bank)) == (["tea", "SHOP"], ["tea"])
