r"""A grammar of well-formed replies, for decoding that cannot go wrong.

`grammar_of` turns a `CallFormat` into GBNF, llama.cpp's grammar language. A reply is then either
plain text, which is the answer, or one call in the form that the model was trained on:

```
<tool_call>
{"name": "group__function", "arguments": {"id": "7"}}
</tool_call>
```

Only operations that may be called, with parameters that they have, in the schema's order, each of
its type. Optional parameters may be left out; a required one may be the format's unknown value.

Small models make values up, most of all by copying examples out of descriptions, and they shorten
ids. So when there is an unknown value to fall back to, a text value is *grounded*: an id is one
that stands in the conversation, a date is one that the user said, and other words with digits can
only be copied, whole. A made-up `claim-123`, or `857` for `claim-857`, cannot be decoded at all.

The grammar says less than a JSON Schema can (no lengths, patterns or ranges): what it leaves open,
the validation of the call's arguments finds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.models.base import CallFormat, OperationFormat
from orchestrator.models.grounds import NO_GROUNDS, Grounds
from orchestrator.models.identifiers import find_ids, find_words, read_examples
from orchestrator.models.tool_calls import CALL_CLOSE, CALL_OPEN
from orchestrator.models.user_dates import UserDates, find_dates
from orchestrator.support.lru_cache import LruCache
from orchestrator.support.words import drop_http_verb

# The tool by which a model asks the user (Bedrock: AMAZON.UserInput).
ASK_USER = "user__askuser"

_COMMON = r"""
answer ::= [^< \t\r\n] ( [^<] | "<"+ [^<t/] )*
char ::= [^"\\\x00-\x1f] | "\\" ["\\/bfnrt] | "\\u" [0-9a-fA-F]{4}
plain ::= [^"\\0-9\x00-\x1f] | "\\" ["\\/bfnrt]
text ::= "\"" char+ "\""
boolean ::= "true" | "false"
integer ::= "-"? ( "0" | [1-9] [0-9]{0,15} )
number ::= integer ( "." [0-9]{1,12} )?
json ::= object | array | string | number | boolean | "null"
object ::= "{" ( member ( ", " member )* )? "}"
member ::= string ": " json
array ::= "[" ( json ( ", " json )* )? "]"
string ::= "\"" char* "\""
"""

# Types that are called as their rules.
_RULES = ("boolean", "integer", "number", "array", "object")

_ISO_DATE = re.compile(r"YYYY-MM-DD|\d{4}-\d{2}-\d{2}", re.I)
_MOST_WORDS = 200
_MONTH = '"-" ( "0" [1-9] | "1" [0-2] ) "-"'
# Rules of a grammar of several choices.
_MOST_PICKS = 2000

# The operations are part of the value, so that no other object gets their identity.
_cache: LruCache[tuple[tuple[OperationFormat, ...], str, _Ids]] = LruCache(256)


def grammar_of(form: CallFormat, grounds: Grounds = NO_GROUNDS, *, must_call: bool = False) -> str:
    """The grammar of the replies that `form` allows; of calls only, with `must_call`.

    Values may be copied from the texts of `grounds`. The operations' part of the grammar is
    cached by the identity of `form.operations`, which an agent makes once.
    """
    if form.choices:
        return _choices(form)
    key = (id(form.operations), form.unknown_value, form.excluded, must_call)
    _, rules, ids = _cache.get(key, lambda: (form.operations, *_compile(form, must_call)))
    return rules + (_grounds(grounds, ids) if form.unknown_value else "")


def continuation_grammar(form: CallFormat, grounds: Grounds) -> str:
    """The grammar of the pending call alone, of which only the unknown values are free.

    Empty when the call cannot go on: its operation is gone or excluded, or nothing is unknown.
    """
    name, arguments = form.pending or ("", {})
    operation = next((one for one in form.operations if one.name == name), None)
    unknown = form.unknown_value
    if operation is None or name in form.excluded or unknown not in arguments.values():
        return ""
    properties = operation.schema.get("properties") or {}
    ids = _Ids()
    members = []
    for parameter, value in arguments.items():
        head = _literal(json.dumps(parameter, ensure_ascii=False) + ": ")
        given = _literal(json.dumps(value, ensure_ascii=False))
        schema = properties.get(parameter) or {}
        members.append(f"{head} {_value(schema, True, ids) if value == unknown else given}")
    head = _literal(f'{CALL_OPEN}{{"name": "{drop_http_verb(name)}", "arguments": {{')
    body = ' ", " '.join(members)
    root = f"root ::= {head} {body} {_literal('}}' + CALL_CLOSE)}\n"
    return f"unknown ::= {_literal(unknown)}\n{root}" + _COMMON + _grounds(grounds, ids)


def build_grounded_answer(grounds: Grounds) -> str:
    """The grammar of an answer whose words with digits all stand in the conversation."""
    words = [
        *dict.fromkeys(word for text in grounds[:3] for one in text for word in find_words(one))
    ]
    ways = " | ".join(map(_literal, words[-_MOST_WORDS:]))
    lines = [f"root ::= first rest*\nfirst ::= [^<0-9 \\t\\r\\n]{' | ' + ways if ways else ''}"]
    return "\n".join([*lines, f"rest ::= [^<0-9]{' | ' + ways if ways else ''}\n"])


def build_introduction(opening: str) -> str:
    """The grammar of one plain sentence that begins in a given way."""
    return f'root ::= {_literal(opening)} [^<\\n.,;:!?]{{1,160}} "."\n'


def _compile(form: CallFormat, must_call: bool) -> tuple[str, _Ids]:
    ids = _Ids()
    return "\n".join(_lines(form, must_call, ids)) + _COMMON, ids


class _Ids(dict[tuple[str, ...], str]):
    """The rules of ids, by the examples whose form they have."""

    def name_rule(self, description: str) -> str:
        """The rule of a parameter's ids."""
        return self.setdefault(read_examples(description), f"id-{len(self)}")


def _choices(form: CallFormat) -> str:
    # One choice, or several different ones in the order in which they stand.
    fewest, most = form.picks
    if most == 1:
        return f"root ::= {' | '.join(map(_literal, form.choices))}\n"
    items = list(dict.fromkeys(form.choices))
    between = _literal(form.separator)
    if len(items) * most > _MOST_PICKS:  # then one may be there twice: whoever asked looks
        one = f"( {' | '.join(map(_literal, items))} )"
        return f"root ::= {one} ( {between} {one} ){{{fewest - 1},{most - 1}}}\n"
    lines = ["root ::= pick-0-0"]
    for picked in range(min(most, len(items))):
        for at, item in enumerate(items):
            left = len(items) - at - 1
            ways = [_literal(item)] if picked + 1 >= fewest else []
            if picked + 1 < most and left >= max(1, fewest - picked - 1):
                ways.append(f"{_literal(item)} {between} pick-{at + 1}-{picked + 1}")
            if left >= max(1, fewest - picked):
                ways.append(f"pick-{at + 1}-{picked}")
            if ways:
                lines.append(f"pick-{at}-{picked} ::= {' | '.join(ways)}")
    return "\n".join(lines) + "\n"


def look_ups(form: CallFormat, name: str, arguments: Mapping[str, Any]) -> CallFormat | None:
    """`form` with only the operations that may find the id which the call `name` lacks.

    These need no id and no date themselves. `None` when the call lacks no id, or there are none.
    """
    called = next((one for one in form.operations if one.name == name), None)
    if called is None or not any(
        arguments.get(parameter) == form.unknown_value
        for parameter in _find_required(called, ("grounded",))
    ):
        return None
    needy = {one.name for one in form.operations if _find_required(one, ("grounded", "date"))}
    excluded = form.excluded | needy | {name}
    if all(one.name in excluded for one in form.operations):
        return None
    return CallFormat(form.protocol, form.operations, False, form.unknown_value, excluded)


def _find_required(operation: OperationFormat, rules: tuple[str, ...]) -> list[str]:
    properties = operation.schema.get("properties") or {}
    required = operation.schema.get("required") or ()
    return [name for name in required if _choose_rule(properties.get(name) or {}, True) in rules]


def _grounds(grounds: Grounds, ids: _Ids) -> str:
    texts = (*grounds.said, *grounds.returned)
    words = [*dict.fromkeys(word for text in texts for word in find_words(text))][-_MOST_WORDS:]
    # What cannot be grounded is only the unknown value: a rule must match something.
    rules = {
        "loose": "plain+ ( word plain+ )* word? | word ( plain+ word )* plain*"
        if words
        else "plain+",
        "date": _date(_find_dates(grounds)),
    }
    for examples, rule in ids.items():
        found = find_ids(examples, grounds.said, grounds.returned, grounds.now)
        rules[rule] = " | ".join(map(_literal, found)) or "unknown"
    lines = [f'{name} ::= "\\"" ( {rule} ) "\\""' for name, rule in rules.items()]
    if words:
        lines.append(f"word ::= {' | '.join(map(_literal, words))}")
    return "\n".join(lines) + "\n"


def _find_dates(grounds: Grounds) -> UserDates:
    """The dates that the last input may mean: of all those that were named last."""
    moved = grounds.move_dates()
    if moved is not None:
        return UserDates(tuple(moved.values()), ())
    if grounds.dated is None:
        return find_dates(grounds.said)
    later = find_dates(grounds.since)
    return UserDates((*grounds.dated.values(), *later.whole), later.days)


def _date(dates: UserDates) -> str:
    ways = [*map(_literal, dates.whole)]
    if dates.days:
        days = " | ".join(_literal(f"{day:02}") for day in dates.days)
        ways.append(f"[0-9]{{4}} {_MONTH} ( {days} )")
    return " | ".join(ways) or "unknown"


def _lines(form: CallFormat, must_call: bool, ids: _Ids) -> Iterator[str]:
    # A question to the user needs no call: an unknown value asks it, and so does an answer.
    callable_ = [one for one in form.list_allowed() if one.name != ASK_USER]
    yield f"unknown ::= {_literal(form.unknown_value or '?')}"
    if not callable_:
        yield "root ::= answer"
        return
    calls = " | ".join(f"call-{index}" for index in range(len(callable_)))
    head = _literal(CALL_OPEN + '{"name": "')
    yield "root ::= call" if must_call else "root ::= call | answer"
    yield f"call ::= {head} ( {calls} ) {_literal('}' + CALL_CLOSE)}"
    for index, operation in enumerate(callable_):
        yield from _call(f"call-{index}", operation, form.unknown_value, ids)


def _call(rule: str, operation: OperationFormat, unknown: str, ids: _Ids) -> Iterator[str]:
    properties: Mapping[str, Any] = operation.schema.get("properties") or {}
    required = set(operation.schema.get("required") or ())
    head = _literal(f'{drop_http_verb(operation.name)}", "arguments": {{')
    yield f"{rule} ::= {head} {rule}-first-0"
    # Two chains of rules: `first` before any argument is written, `more` after one.
    for index, (name, schema) in enumerate(properties.items()):
        schema = schema if isinstance(schema, Mapping) else {}
        value = _value(schema, bool(unknown) and name in required, ids)
        head = _literal(json.dumps(name) + ": ")
        yield f"{rule}-{index} ::= {head} {value} {rule}-more-{index + 1}"
        skip = "" if name in required else " | {}-" + str(index + 1)
        yield f"{rule}-first-{index} ::= {rule}-{index}{skip.format(rule + '-first')}"
        yield f'{rule}-more-{index} ::= ", " {rule}-{index}{skip.format(rule + "-more")}'
    yield f'{rule}-first-{len(properties)} ::= "}}"'
    yield f'{rule}-more-{len(properties)} ::= "}}"'


def _value(schema: Mapping[str, Any], unknown: bool, ids: _Ids) -> str:
    rule = _choose_rule(schema, unknown)
    if rule == "grounded":
        rule = ids.name_rule(str(schema.get("description", "")))
    return f'( "\\"" unknown "\\"" | {rule} )' if unknown else rule


def _choose_rule(schema: Mapping[str, Any], grounded: bool) -> str:
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices:
        return "( " + " | ".join(_literal(json.dumps(choice)) for choice in choices) + " )"
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _RULES:
        return kind
    return find_kind(schema) if grounded else "text"


def find_kind(schema: Mapping[str, Any]) -> str:
    """What a text value of a parameter is: a `date`, `grounded` (an id), or `loose` text."""
    description = str(schema.get("description", ""))
    if schema.get("format") == "date" or _ISO_DATE.search(description):
        return "date"
    return "grounded" if read_examples(description) else "loose"


_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
