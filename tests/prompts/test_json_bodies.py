"""The JSON reader: what Python's reader accepts, and errors that say where and what."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import TemplateError
from orchestrator.prompts.jsonbody import Node, parse, source_offsets

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def value_of(node: Node):
    match node.kind:
        case "object":
            return {name: value_of(item) for name, item in node.value.items()}
        case "array":
            return [value_of(item) for item in node.value]
        case "string":
            return node.value
    return json.loads(node.value)


@given(anything, st.booleans(), st.sampled_from([None, 2]))
def test_reads_what_json_writes(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    try:
        root = parse(text, strict=True).root
    except TemplateError as error:
        assert "levels of nesting" in str(error)
        return
    assert value_of(root) == value


@given(anything, st.data())
def test_a_broken_body_is_an_error_where_json_has_one(value, data):
    text = json.dumps(value, ensure_ascii=False)
    cut = data.draw(st.integers(0, len(text)))
    text = text[:cut] + data.draw(st.text('{}[]",:\\ \n0ae', max_size=3)) + text[cut + 1 :]
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(TemplateError, match="Invalid JSON in the prompt: expected"):
            parse(text)
    else:
        try:
            assert value_of(parse(text).root) == expected
        except TemplateError as error:
            assert "levels of nesting" in str(error)


@given(st.lists(st.sampled_from(["a", "\n", '"', "\\", "é", "😀", "\x07", "$q$"])), st.booleans())
def test_every_character_of_a_string_knows_its_place(pieces, ascii_only):
    value = "".join(pieces)
    text = '{"a": ' + json.dumps(value, ensure_ascii=ascii_only) + "}"
    node = parse(text).root.value["a"]
    places = list(source_offsets(text, node, list(range(len(value)))))
    for character, place in zip(value, places, strict=True):
        rest = text[place : node.end - 1]
        assert json.loads(f'"{rest}"')[:1] == character


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ('{"a": "say "no" now"}', 1, 13, r"',' or '}' after the value of 'a', found 'no"),
        ('{\n  "a": 1\n  "b": 2}', 3, 3, "',' or '}' after the value of 'a'"),
        ('{"a": "x', 1, 7, "a closing double quote"),
        ('{"a": "it\\\'s"}', 1, 10, "an escape that JSON knows"),
        ('{"a": "\\uZZZZ"}', 1, 9, "an escape that JSON knows"),
        ("{'a': 1}", 1, 2, "a member's name in double quotes"),
        ('{"a": 1,}', 1, 9, "a member's name in double quotes"),
        ('{"a" 1}', 1, 6, "':' after 'a'"),
        ('{"a": }', 1, 7, "a value"),
        ('{"a": [1 2]}', 1, 10, "',' or ']'"),
        ('{"a": 1} x', 1, 10, "nothing after the closing brace"),
        ('{"a": ', 1, 7, "found the end"),
        ("[" * 50, 1, 18, "levels of nesting"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(text, line, column, expected):
    with pytest.raises(TemplateError) as caught:
        parse(text, source="t.json")
    assert expected in caught.value.reason
    assert caught.value.place == f"t.json:{line}:{column}"


def test_an_unescaped_quote_gets_a_hint():
    with pytest.raises(TemplateError, match=r'written \\"'):
        parse('{"a": "say "no""}')
