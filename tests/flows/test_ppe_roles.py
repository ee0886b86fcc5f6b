"""Roles of PPE scripts that no model knows: slips are refused, others told."""

from __future__ import annotations

from pathlib import Path

import pytest
from flow_support import script, scripted

from orchestrator import FlowError, load_flow
from orchestrator.flows.languages import lint_program


@pytest.mark.parametrize(
    ("written", "meant"),
    [("uesr", "user"), ("User", "user"), ("asistent", "assistant"), ("sytem", "system")],
)
def test_a_slip_of_a_role_is_refused_before_anything_is_sent(written: str, meant: str) -> None:
    model = scripted("never")
    with pytest.raises(FlowError, match=f"no role '{written}'; did you mean '{meant}'") as caught:
        script("user: 'a [[x]]'", f"{written}: Hello").run(model=model)
    assert (caught.value.line, model.requests) == (2, [])
    assert written in caught.value.message_zh


def test_a_slip_in_a_block_that_does_not_run_is_refused_too() -> None:
    with pytest.raises(FlowError, match="did you mean 'user'"):
        script("$if: 1 > 2", "then: {usre: hi}").run(model=scripted())


def test_a_role_that_no_model_knows_is_sent_with_a_warning_before() -> None:
    told = [
        (event.type, event.line)
        for event in script("narrator: hi", "user: q").stream(model=scripted("A"))
        if event.type in ("warning", "statement_start")
    ]
    assert told == [("warning", 1), ("statement_start", 1), ("statement_start", 2)]


def test_what_a_script_says_in_its_own_name_is_the_assistants() -> None:
    model = scripted("ok")
    script("---", "name: guide", "---", "user: hi", "guide: hello", "user: bye").run(model=model)
    assert [it["role"] for it in model.requests[0].messages] == ["user", "assistant", "user"]


def test_in_a_group_chat_anybody_speaks_but_by_a_slip(tmp_path: Path) -> None:
    (tmp_path / "elf.ai.yaml").write_text("---\ntype: char\n---\n")
    main = tmp_path / "main.ai.yaml"
    head = "---\nname: guide\nroles: {dobby: elf}\n---\n---\n"
    main.write_text(f"{head}narrator: It rains.\nuser[@dobby]: hi\n")
    model = scripted("brr")
    flow = load_flow(main)
    assert [it for it in lint_program(flow.program) if it.code == "unknown-role"] == []
    assert flow.run(model=model).output == "brr"
    assert model.requests[0].messages[0]["content"][0]["text"].startswith("narrator: It rains.")
    main.write_text(f"{head}dobbi: hi\nuser[@dobby]: hi\n")
    with pytest.raises(FlowError, match="no role 'dobbi'; did you mean 'dobby'"):
        load_flow(main).run(model=scripted())
