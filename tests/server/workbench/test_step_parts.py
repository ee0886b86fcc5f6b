"""Bedrock's trace parts beside the step that they tell of."""

from __future__ import annotations

from pathlib import Path

from workbench_support import answer, price, workbench

AT = "/agents/shop/sessions/s-1"
HOSTILE = "</pre><script>alert(1)</script>"


def test_each_step_has_its_own_parts_as_json_and_as_a_page(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(HOSTILE), answer("Twelve.")]) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        traces = [bench.client.get(f"{turn}/steps/{n}/parts").json["parts"] for n in (1, 2, 3)]
        assert [part for one in traces for part in one] == bench.client.get(f"{turn}/trace").json
        asked, given = (one["trace"]["orchestrationTrace"] for one in traces[1])
        assert (list(asked), list(given)) == (["invocationInput"], ["observation"])
        page = bench.client.page(f"{turn}/steps/2/parts").text
        assert "orchestrationTrace · invocationInput" in page
        assert HOSTILE not in page
        rows = bench.client.page(turn).text
        assert 'aria-label="Trace parts of step 2 as JSON"' in rows
        missing = bench.client.get(f"{turn}/steps/4/parts")
        assert (missing.status, missing.json["message"]) == (
            404,
            "the turn has 3 steps, and no step 4",
        )


def test_a_part_that_is_too_long_for_a_page_is_whole_in_its_json(tmp_path: Path) -> None:
    with workbench(tmp_path, [answer("Yes.")]) as bench:
        bench.agent.invoke("x" * 300_000, "s-1")
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        page = bench.client.page(f"{turn}/steps/1/parts").text
        assert "characters more are in the JSON" in page
        assert len(page) < 250_000
        assert "x" * 300_000 in bench.client.get(f"{turn}/steps/1/parts").text
