"""Parameters as OpenAPI's styles write them; and values that never become more than a value."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from http_support import document, parameter
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions import ActionGroup, Call, HttpExecutor
from orchestrator.actions._serialise import (
    SerialisationError,
    body_of,
    headers_of,
    path_of,
    query_of,
)

LIST, OBJECT = ["a b", "c,d"], {"r": 1, "g": "x y"}


def call(path: str, *parameters: dict[str, Any], **arguments: Any) -> Call:
    schema = document(path, parameters=list(parameters))
    (operation,) = ActionGroup(
        "api", api_schema=schema, executor=HttpExecutor("https://a.example")
    ).operations
    return Call("c", operation, arguments)


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("", None, "a/b?c#d", "a%2Fb%3Fc%23d"),
        ("", None, 1.5, "1.5"),
        ("", None, True, "true"),
        ("simple", None, LIST, "a%20b,c%2Cd"),
        ("simple", None, OBJECT, "r,1,g,x%20y"),
        ("simple", True, OBJECT, "r=1,g=x%20y"),
        ("label", None, "v", ".v"),
        ("label", None, LIST, ".a%20b,c%2Cd"),
        ("label", True, LIST, ".a%20b.c%2Cd"),
        ("label", True, OBJECT, ".r=1.g=x%20y"),
        ("matrix", None, "v", ";p=v"),
        ("matrix", None, LIST, ";p=a%20b,c%2Cd"),
        ("matrix", True, LIST, ";p=a%20b;p=c%2Cd"),
        ("matrix", None, OBJECT, ";p=r,1,g,x%20y"),
        ("matrix", True, OBJECT, ";r=1;g=x%20y"),
    ],
)
def test_path_styles(style: str, explode: bool | None, value: Any, written: str) -> None:
    options = {"style": style} if style else {}
    more = {} if explode is None else {"explode": explode}
    made = call("/x/{p}/y", parameter("p", "path", **options, **more), p=value)
    assert path_of(made) == f"/x/{written}/y"


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("", None, "a&b=c+d", "p=a%26b%3Dc%2Bd"),
        ("", None, LIST, "p=a%20b&p=c%2Cd"),
        ("form", None, LIST, "p=a%20b&p=c%2Cd"),
        ("form", False, LIST, "p=a%20b,c%2Cd"),
        ("", None, OBJECT, "r=1&g=x%20y"),
        ("form", False, OBJECT, "p=r,1,g,x%20y"),
        ("spaceDelimited", None, LIST, "p=a%20b%20c%2Cd"),
        ("spaceDelimited", True, LIST, "p=a%20b&p=c%2Cd"),
        ("pipeDelimited", None, LIST, "p=a%20b%7Cc%2Cd"),
        ("pipeDelimited", None, OBJECT, "p=r%7C1%7Cg%7Cx%20y"),
        ("deepObject", None, OBJECT, "p[r]=1&p[g]=x%20y"),
        ("", None, [], ""),
    ],
)
def test_query_styles(style: str, explode: bool | None, value: Any, written: str) -> None:
    options = {"style": style} if style else {}
    more = {} if explode is None else {"explode": explode}
    assert query_of(call("/x", parameter("p", "query", **options, **more), p=value)) == written


def test_parameters_with_content_are_json() -> None:
    content = {"application/json": {"schema": {"type": "object"}}}
    made = call(
        "/x",
        {"name": "q", "in": "query", "content": content},
        {"name": "X-H", "in": "header", "content": content},
        **{"q": {"a": ["ä"]}, "X-H": {"b": "ä"}},
    )
    assert json.loads(unquote(query_of(made).removeprefix("q="))) == {"a": ["ä"]}
    assert headers_of(made) == {"X-H": '{"b": "\\u00e4"}'}


def test_header_styles() -> None:
    made = call("/x", parameter("X-A", "header"), parameter("X-B", "header", explode=True),
                **{"X-A": ["1", "2"], "X-B": {"r": 1, "g": 2}})  # fmt: skip
    assert headers_of(made) == {"X-A": "1,2", "X-B": "r=1,g=2"}


def test_a_style_of_another_place_is_an_error() -> None:
    with pytest.raises(Exception, match=r"'p' has the style 'matrix'; allowed in the query"):
        call("/x", parameter("p", "query", style="matrix"))


any_text = st.text(max_size=40)


@given(any_text, st.lists(any_text, max_size=3), any_text)
def test_no_value_becomes_more_than_a_value(one: str, many: list[str], header: str) -> None:
    made = call(
        "/x/{p}/y",
        parameter("p", "path"),
        parameter("q", "query", "array"),
        parameter("X-H", "header"),
        **{"p": one, "q": many, "X-H": header},
    )
    try:
        path = path_of(made)
    except SerialisationError:
        assert one == "" or {".", ".."} & set(re.split(r"[/\\;]", unquote(unquote(one))))
    else:
        assert path.split("/")[1::2] == ["x", "y"] and path.count("/") == 3
        assert unquote(path.split("/")[2]) == one
    url = urlsplit(f"https://a.example/x?{query_of(made)}")
    assert parse_qsl(url.query, keep_blank_values=True) == [("q", item) for item in many]
    assert not url.fragment
    try:
        (sent,) = headers_of(made).values()
    except SerialisationError:
        assert not (header.isprintable() and header.isascii())
    else:
        assert sent == header and "\n" not in sent and "\r" not in sent


@pytest.mark.parametrize(
    "value",
    [
        *("../../admin", "..\\..\\admin", "a/./b", "x/..", "..;/admin", "a;.."),
        *("%2e%2e", "..%2Fadmin", "%2e%2e%2fadmin", "a%5C..", "%252e%252e"),
    ],
)
def test_a_path_value_leads_to_no_other_place(value: str) -> None:
    with pytest.raises(
        SerialisationError, match=r"p may not be empty, '\.' or '\.\.', nor have such a part"
    ):
        path_of(call("/x/{p}/y", parameter("p", "path"), p=value))
    with pytest.raises(SerialisationError):
        path_of(call("/x/{p}", parameter("p", "path", "array"), p=["a", f"b/{value}/c"]))


def test_a_labels_dot_counts() -> None:
    for value in (".", "./x"):
        with pytest.raises(SerialisationError):
            path_of(call("/x/{p}", parameter("p", "path", style="label"), p=value))


def test_path_values_lead_nowhere_together() -> None:
    two = [parameter("a", "path"), parameter("b", "path")]
    with pytest.raises(
        SerialisationError, match=r"The arguments a, b may not make '\.' or '\.\.' together"
    ):
        path_of(call("/x/{a}{b}", *two, a="%2", b="e"))
    assert path_of(call("/x/{a}{b}", *two, a="..a", b="b..")) == "/x/..ab.."


def test_an_exploded_object_is_no_other_parameter() -> None:
    two = [parameter("f", "query", "object"), parameter("role", "query")]
    for key in ("role", "ROLE"):
        with pytest.raises(SerialisationError, match=f"f may not have the member '{key}'"):
            query_of(call("/x", *two, f={key: "admin"}, role="user"))
    assert query_of(call("/x", *two, f={"f": 1, "rol": 2}, role="user")) == "f=1&rol=2&role=user"
    paths = [
        parameter("m", "path", "object", style="matrix", explode=True),
        parameter("r", "path", style="matrix"),
    ]
    with pytest.raises(SerialisationError, match="m may not have the member 'r'"):
        path_of(call("/x{m}{r}", *paths, m={"r": "admin"}, r="user"))


def test_a_half_surrogate_is_sent_as_a_question_mark() -> None:
    made = call("/x/{p}", parameter("p", "path"), parameter("q", "query"), p="\ud800", q="\udfff")
    assert (path_of(made), query_of(made)) == ("/x/%3F", "q=%3F")
    assert body_of(made) is None
