"""Every trace part of every kind of turn is what AWS's own service model says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore_shapes import parsed_by_botocore, problems
from trace_turns import EACH_TURN, IDS, Turn
from whole_agents import Family, agent, live_parts, members, outcome, streamed

QUESTION = "How many days have I left?"


def replies(turn: Turn, family: Family) -> list[Any]:
    """The replies of the turn: two when control is returned."""
    asked = agent(family.model(turn.script(family)), **turn.agent_options())
    found = [outcome(asked, QUESTION, "s-1")]
    if turn.results is not None:
        results = found[0].return_control.answer(turn.results)
        found.append(outcome(asked, session_id="s-1", results=results))
    return found


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_every_part_has_aws_shape(turn: Turn, family: Family) -> None:
    parts = [part for reply in replies(turn, family) for part in reply.trace]
    assert parts
    assert [found for part in parts for found in problems(part)] == []


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_botocores_parser_reads_every_part_whole(turn: Turn, family: Family) -> None:
    for reply in replies(turn, family):
        for part in reply.trace:
            parsed = parsed_by_botocore(part)
            assert not isinstance(parsed["eventTime"], str)
            assert shape_of(parsed) == shape_of(part)


def shape_of(value: Any) -> Any:
    # Members and texts; times are parsed to other types.
    if isinstance(value, dict):
        return {key: shape_of(one) for key, one in value.items() if not key.endswith("Time")}
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    return value


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_returned_control_and_citations_have_aws_shape(turn: Turn, family: Family) -> None:
    for reply in replies(turn, family):
        if reply.return_control is not None:
            control = reply.as_dict()["return_control"]
            assert problems(control, "ReturnControlPayload") == []
        assert problems({"citations": reply.citations}, "Attribution") == []


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_a_turn_fails_only_where_it_should(turn: Turn, family: Family) -> None:
    asked = agent(family.model(turn.script(family)), **turn.agent_options())
    events, error = streamed(asked, QUESTION, "s-1")
    assert type(error).__name__ == (turn.error or "NoneType")
    ends = "failureTrace" in members(live_parts(events))
    assert ends == bool(turn.error)


@pytest.mark.parametrize(("turn", "family"), EACH_TURN, ids=IDS)
def test_ids_are_of_the_recorded_grammar(turn: Turn, family: Family) -> None:
    for reply in replies(turn, family):
        for part in reply.trace:
            ((_, trace),) = part["trace"].items()
            id = trace.get("traceId") or next(iter(trace.values()))["traceId"]
            request, _, number = id[:36], id[36], id[37:]
            assert request.count("-") == 4
            assert number.isdigit() or number in ("pre-0", "post-0")
