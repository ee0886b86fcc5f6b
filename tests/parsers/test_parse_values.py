"""Parameters of XML calls: values stay values, and nothing is ever expanded."""

from __future__ import annotations

import pytest
from parser_helpers import actions, arguments, reprompt

from orchestrator import parsers


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("Paris", "Paris"),
        ("\n  Paris\n", "Paris"),
        ("", ""),
        ("AT&T", "AT&T"),
        ("AT&amp;T", "AT&T"),
        ("a < b &amp;&amp; c > d", "a < b && c > d"),
        ("&lt;answer&gt;", "<answer>"),
        ("&#8364; &#x41;", "€ A"),
        ("&nbsp;", "&nbsp;"),
        ("&amp;lt;", "&lt;"),
        ("AT&T &amp;lt;", "AT&T &lt;"),
        ("<![CDATA[a < b & </a> ]]>", "a < b & </a> "),
        (r"C:\new\table", r"C:\new\table"),
        ('{"path": "C:\\\\new", "q": "a & b"}', '{"path": "C:\\\\new", "q": "a & b"}'),
        ('["a", "b &amp; c"]', '["a", "b &amp; c"]'),
        ("<item>a</item><item>b &amp; c</item>", "<item>a</item><item>b &amp; c</item>"),
        ("<a>inner</a>", "<a>inner</a>"),
        ("a=1,b=2", "a=1,b=2"),
        ("<!-- note -->x", "x"),
        ("<html><!DOCTYPE html></html>", "<html><!DOCTYPE html></html>"),
        ("<b>unclosed", "<b>unclosed"),
        ("\x00 &amp;", "\x00 &"),
    ],
)
def test_a_value_is_text(written: str, value: str) -> None:
    assert arguments(f"<a>{written}</a><z>1</z>") == {"a": value, "z": "1"}


def test_self_closed_and_repeated_elements() -> None:
    assert arguments("<a/><b>1</b><b>2</b>") == {"a": "", "b": "2"}


def test_parameters_written_as_json_keep_their_types() -> None:
    assert arguments('{"n": 10, "list": [1], "text": "<b>"}') == {
        "n": 10,
        "list": [1],
        "text": "<b>",
    }


def test_a_missing_end_tag_ends_at_the_next_one() -> None:
    assert arguments("<a>1</wrong><b>2</b>") == {"a": "1", "b": "2"}
    assert arguments("<a>1") == {"a": "1"}


def test_too_many_missing_end_tags_are_unreadable() -> None:
    reply = "<function_calls><invoke><tool_name>g::f</tool_name><parameters>" + "".join(
        f"<a{index}>1</x>" for index in range(20)
    )
    parsed = parsers.parse(reply)
    assert parsed.code == "BAD_XML"
    assert reprompt(parsed).startswith("406: ")


def test_parameters_without_their_element_are_found() -> None:
    reply = "<function_calls><invoke><tool_name>g::f</tool_name><city>Paris</city></invoke>"
    assert actions(reply)[0]["actionGroupInput"] == {"city": {"value": "Paris"}}


BOMB = "".join(
    f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' if level else '<!ENTITY e0 "lol">'
    for level in range(10)
)


@pytest.mark.parametrize(
    "declaration",
    [
        f"<!DOCTYPE x [{BOMB}]>",
        '<!DOCTYPE x [<!ENTITY e9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">',
        "<!doctype x>",
    ],
)
@pytest.mark.parametrize(
    "place",
    ["<{0}parameters><a>&e9;</a>", "<parameters>{0}<a>&e9;</a>", "<parameters><a>&e9;</a>{0}"],
)
def test_a_document_type_makes_a_call_unreadable(declaration: str, place: str) -> None:
    place = place.replace("<{0}", "{0}<")
    reply = "<function_calls><invoke><tool_name>g::f</tool_name>" + place.format(declaration)
    parsed = parsers.parse(reply + "</parameters></invoke>")
    assert parsed.code == "BAD_XML"


@pytest.mark.parametrize(
    "value",
    ["&e9;", '<!DOCTYPE v [<!ENTITY e9 "x">]>&e9;', '</v><!DOCTYPE v [<!ENTITY e9 "x">]><v>&e9;'],
)
def test_a_document_type_inside_a_value_is_its_text(value: str) -> None:
    assert arguments(f"<a>{value}</a>") == {"a": value}


def test_deep_and_long_values_are_taken_as_they_are() -> None:
    deep = "<x>" * 20_000 + "&lt;" + "</x>" * 20_000
    assert arguments(f"<a>{deep}</a>") == {"a": deep.replace("&lt;", "<")}
    long = "&lt;&unknown;" * 20_000
    assert arguments(f"<a>{long}</a>") == {"a": "<&unknown;" * 20_000}
    nested = "[" * 100_000
    assert arguments(f"<a>{nested}&amp;</a>") == {"a": nested + "&"}


def test_a_cdata_section_may_hold_the_call_s_own_end_tags() -> None:
    inner = "</invoke></function_calls><answer>no</answer>"
    reply = (
        "<function_calls><invoke><tool_name>g::f</tool_name><parameters>"
        f"<html><![CDATA[{inner}]]></html><b>1</b></parameters></invoke></function_calls>"
    )
    assert actions(reply)[0]["actionGroupInput"] == {
        "html": {"value": inner},
        "b": {"value": "1"},
    }
