"""Attack 7: XML bombs in a model's reply. Nothing is expanded or fetched; the model is told."""

from __future__ import annotations

import pytest
from whole_agents import XML, Calls, agent, answer, members

from orchestrator import Limits

LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)
BOMBS = {
    "billion laughs": f"{LAUGHS}]><employee>&j;</employee>",
    "quadratic blow-up": '<!DOCTYPE x [<!ENTITY a "' + "x" * 50_000 + '">]><employee>'
    + "&a;" * 10_000 + "</employee>",
    "external entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    "<employee>&a;</employee>",
    "remote entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "http://10.0.0.1/x">]><employee>&a;</employee>',
    "bare doctype": '<!DOCTYPE x SYSTEM "http://10.0.0.1/x.dtd"><employee>E-1</employee>',
    "parameter entity": '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://10.0.0.1/p">%p;]><employee/>',
    "inside the value": f"<employee>{LAUGHS}]>&j;</employee>",
    "depth": "<employee>" + "<a>" * 200_000 + "</employee>",
    "closed depth": "<employee>" + "<a>" * 50_000 + "x" + "</a>" * 50_000 + "</employee>",
    "unknown entity": "<employee>&nbsp;&xxe;</employee>",
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_stays_small(bomb: str) -> None:
    call = (
        "<function_calls><invoke><tool_name>vacations::get_days</tool_name><parameters>"
        f"{bomb}</parameters></invoke></function_calls>"
    )
    calls = Calls()
    asked = agent(XML.model([call, answer("No."), answer("Fine.")]), calls.groups())
    reply = asked.invoke("How many?", "s-1")
    assert reply.text == "No."
    for _, arguments in calls.made:  # taken literally, if at all
        assert len(str(arguments)) <= len(bomb) + 100
        assert "root:" not in str(arguments)
        assert "haha" not in str(arguments)
    assert calls.made or "observation REPROMPT" in members(reply.trace)
    assert asked.invoke("And?", "s-1").text == "Fine."


@pytest.mark.parametrize(
    "name",
    [name for name in BOMBS if "DOCTYPE" in BOMBS[name].partition("<employee")[0]],
)
def test_a_document_type_is_refused_with_words_for_the_model(name: str) -> None:
    call = (
        "<function_calls><invoke><tool_name>vacations::get_days</tool_name><parameters>"
        f"{BOMBS[name]}</parameters></invoke></function_calls>"
    )
    calls = Calls()
    model = XML.model([call, answer("No.")])
    agent(model, calls.groups(), limits=Limits(reprompts=1)).invoke("How many?")
    assert calls.made == []
    assert "function call format is incorrect" in str(model.requests[1].messages[-1])
