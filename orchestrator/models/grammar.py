r"""A grammar of well-formed replies, for decoding that cannot go wrong.

`grammar_of` turns a `CallFormat` into GBNF, llama.cpp's grammar language. A reply is then either
an answer or calls, in the XML protocol's form (Bedrock: "Write a custom parser Lambda function",
Claude 3 examples):

```
<function_calls><invoke><tool_name>group::function</tool_name><parameters><id>7</id></parameters></invoke></function_calls>
<answer>text</answer>
```

Only operations that may be called, with parameters that they have, in the schema's order, each of
its type. Optional parameters may be left out; a required one may be the format's unknown value.
The grammar says less than a JSON Schema can (no lengths, patterns or ranges): what it leaves open,
the validation of the call's arguments finds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any
from xml.sax.saxutils import escape

from orchestrator.models.base import CallFormat, OperationFormat

__all__ = ["ASK_USER", "grammar_of"]

ASK_USER = "user::askuser"
"""The tool by which a model asks the user (Bedrock: AMAZON.UserInput)."""

# Text stops where a tag begins; JSON inside XML writes `<` as an escape. No value starts or ends
# a reply's structure, so `<` appears only in the grammar's own literals and inside answers.
_COMMON = r"""
answer ::= "<answer>" [^< \t\r\n] ( [^<] | "<"+ [^/<] )* "</answer>"
text ::= [^< \t\r\n] [^<]*
boolean ::= "true" | "false"
integer ::= "-"? ( "0" | [1-9] [0-9]{0,15} )
number ::= integer ( "." [0-9]{1,12} )?
date ::= [0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] )
json ::= object | array | string | number | boolean | "null"
object ::= "{" ( member ( "," " "? member )* )? "}"
member ::= string ":" " "? json
array ::= "[" ( json ( "," " "? json )* )? "]"
string ::= "\"" ( [^"\\<\x00-\x1f] | "\\" ["\\/bfnrt] | "\\u" [0-9a-fA-F]{4} )* "\""
"""

_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
}

_RULES = {
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "array": "array",
    "object": "object",
}

_MOST = 256
_cache: dict[tuple[int, bool, str, frozenset[str]], tuple[tuple[OperationFormat, ...], str]] = {}
_lock = Lock()


def grammar_of(form: CallFormat) -> str:
    """The grammar of the replies that `form` allows.

    Grammars are kept by the identity of `form.operations`, which an agent makes once, and by
    what may change from step to step.
    """
    key = (id(form.operations), form.ask_user, form.unknown_value, form.excluded)
    kept = _cache.get(key)
    if kept is not None:
        return kept[1]
    grammar = "\n".join(_lines(form)) + _COMMON
    with _lock:
        if len(_cache) >= _MOST:
            _cache.clear()
        # The operations are kept too: their identity must not be given to another object.
        _cache[key] = (form.operations, grammar)
    return grammar


def _lines(form: CallFormat) -> Iterator[str]:
    callable_ = [one for one in form.operations if one.name not in form.excluded]
    if form.ask_user and ASK_USER not in form.excluded:
        callable_.append(OperationFormat(ASK_USER, _QUESTION))
    if not callable_:
        yield "root ::= answer"
        return
    calls = " | ".join(f"call-{index}" for index in range(len(callable_)))
    yield "root ::= calls | answer"
    yield 'calls ::= "<function_calls>" invoke+ "</function_calls>"'
    yield f'invoke ::= "<invoke><tool_name>" ( {calls} ) "</parameters></invoke>"'
    for index, operation in enumerate(callable_):
        # A question to the user is text: no unknown value stands for it.
        unknown = "" if operation.name == ASK_USER else form.unknown_value
        yield from _call(f"call-{index}", operation, unknown)


def _call(rule: str, operation: OperationFormat, unknown: str) -> Iterator[str]:
    properties: Mapping[str, Any] = operation.schema.get("properties") or {}
    required = set(operation.schema.get("required") or ())
    head = _literal(f"{operation.name}</tool_name><parameters>")
    uses = [
        f"{rule}-{index}" + ("" if name in required else "?")
        for index, name in enumerate(properties)
    ]
    yield f"{rule} ::= {' '.join([head, *uses])}"
    for index, (name, schema) in enumerate(properties.items()):
        value = _value(schema if isinstance(schema, Mapping) else {})
        if unknown and name in required:
            value = f"( {_literal(escape(unknown))} | {value} )"
        yield f"{rule}-{index} ::= {_literal(f'<{name}>')} {value} {_literal(f'</{name}>')}"


def _value(schema: Mapping[str, Any]) -> str:
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices:
        return "( " + " | ".join(_literal(_written(choice)) for choice in choices) + " )"
    kind = schema.get("type")
    if kind == "string" and schema.get("format") == "date":
        return "date"
    return _RULES.get(kind, "text") if isinstance(kind, str) else "text"


def _written(value: Any) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value))


_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
