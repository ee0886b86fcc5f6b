"""A team's turn: a lane for each agent, and one time axis."""

from __future__ import annotations

from pathlib import Path

from workbench_support import TeamModel, answer, price, workbench, write_team

AT = "/agents/team/sessions/s-1"


def test_each_agent_of_a_team_has_a_lane(tmp_path: Path) -> None:
    with workbench(write_team(tmp_path), model=TeamModel()) as bench:
        assert bench.agent.invoke("Ask both.", "s-1").text == "Both answered."
        turn = f"{AT}/turns/{bench.agent.turns('s-1')[0].id}"
        page = bench.client.page(turn).text
        assert 'aria-label="Lanes"' in page
        assert '<a href="?q=tea">tea</a>' in page
        assert '<a href="?q=milk">milk</a>' in page
        # Each has its own model call; the lead has two, and the ends of the others' work.
        assert page.count("1 step ·") == 2
        assert "4 steps ·" in page


def test_an_agent_on_its_own_has_no_lanes(tmp_path: Path) -> None:
    with workbench(tmp_path, [price(), answer("Twelve.")]) as bench:
        bench.agent.invoke("How much is tea?", "s-1")
        turn = f"/agents/shop/sessions/s-1/turns/{bench.agent.turns('s-1')[0].id}"
        assert "Lanes" not in bench.client.page(turn).text
