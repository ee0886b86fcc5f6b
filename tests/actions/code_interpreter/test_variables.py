"""The variables of a session's programs: each goes on where the one before it ended."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from interpreter_support import needs_sandbox, output_of, run, settings

from orchestrator.actions.code_interpreter import CodeInterpreter

pytestmark = needs_sandbox

FIRST = dedent(
    """
    import math, json as js
    from collections import namedtuple, OrderedDict
    from dataclasses import dataclass
    from enum import Enum
    from functools import cache

    rate = 0.5
    rows = [{"item": "pen", "price": 3}]
    same = rows

    def price(item, times=len(rows)):
        '''What it costs,
    at the rate of now.'''
        return rows[0]["price"] * rate * times

    @cache
    def slow(n):
        return n * 2

    if rate:
        half = lambda x: x / 2

    class Color(Enum):
        RED = 1

    @dataclass
    class Item:
        name: str
        color: Color = Color.RED

        def shout(self):
            return self.name.upper()

    class Pen(Item):
        pass

    pen = Pen("pen")
    numbers = (n for n in range(3))
    log = open("log.txt", "w")
    """
)


def test_a_program_goes_on_where_the_one_before_ended(interpreter):
    assert output_of(run(interpreter, FIRST)) == ""
    assert output_of(run(interpreter, "rate = 2\nprice('pen'), slow(4), half(3)")) == "(6, 8, 1.5)"
    assert output_of(run(interpreter, "rows is same, math.floor(2.5), js.dumps(rows)")) == (
        """(True, 2, '[{"item": "pen", "price": 3}]')"""
    )
    assert output_of(run(interpreter, "pen.shout(), pen.color is Color.RED, isinstance(pen, Pen)"))
    assert output_of(run(interpreter, "pen == Pen('pen'), OrderedDict(a=1)['a'], rate")) == (
        "(True, 1, 2)"
    )


def test_what_cannot_be_kept_is_not_there_and_nothing_else_goes(interpreter):
    run(interpreter, FIRST)
    for name in ("numbers", "log"):
        shown = json.loads(run(interpreter, name).text)
        assert shown["is_error"] is True
        assert f"NameError: name '{name}' is not defined" in shown["code_execution_error"]
    assert output_of(run(interpreter, "rate")) == "0.5"


def test_a_program_that_fails_leaves_what_it_had_made(interpreter):
    failed = run(interpreter, "a = 1\ndef f():\n    return a\n1 / 0\nb = 2")
    assert "ZeroDivisionError" in failed.details["executionError"]
    assert output_of(run(interpreter, "f()")) == "1"
    assert "NameError" in run(interpreter, "b").details["executionError"]
    run(interpreter, "a = 5\nraise SystemExit")
    assert output_of(run(interpreter, "f()")) == "5"


def test_names_can_be_deleted_and_made_anew(interpreter):
    run(interpreter, "a = 1\ndef f(): return 1\ndef g(): return 1")
    run(interpreter, "del a, g\nf = 'a text'")
    assert output_of(run(interpreter, "f, 'a' in globals(), 'g' in globals()")) == (
        "('a text', False, False)"
    )


def test_making_them_again_prints_nothing(interpreter):
    run(interpreter, "class Loud:\n    print('made')\nx = Loud()")
    assert output_of(run(interpreter, "type(x).__name__")) == "'Loud'"


@pytest.mark.parametrize(
    "hostile",
    [
        "open('.variables', 'wb').write(b'no pickle')",
        "class Bomb:\n    def __reduce__(self): raise KeyboardInterrupt\nbomb = Bomb()",
        "class Bomb:\n    def __reduce__(self): return (exec, ('1 / 0',))\nbomb = Bomb()",
        "deep = []\nfor _ in range(100_000): deep = [deep]",
        "import sys\nsys.modules['__main__'] = None",
        "globals().update({1: 2})",
    ],
)
def test_hostile_values_harm_nothing_but_the_session(interpreter, hostile):
    run(interpreter, hostile)
    assert output_of(run(interpreter, "print(1)")) == "1"
    assert output_of(run(interpreter, "print(2)", session_id="s-2")) == "2"


def test_values_of_one_session_are_not_in_another(interpreter):
    run(interpreter, "secret = 1", session_id="a")
    assert "NameError" in run(interpreter, "secret", session_id="b").details["executionError"]


def test_what_is_too_large_is_not_kept(make):
    interpreter = make(scratch_bytes=4_000_000)
    run(interpreter, "small = 1\nlarge = bytes(2_000_000)\nopen('a.bin', 'wb').write(large)")
    assert output_of(run(interpreter, "small, 'large' in globals()")) == "(1, False)"
    assert output_of(run(interpreter, "import os\nos.path.getsize('a.bin')")) == "2000000"


def test_they_are_no_file_for_the_user(interpreter):
    result = run(interpreter, "x = 1")
    assert result.files == []
    assert json.loads(result.text) == {"code_execution_output": "", "is_error": False}


def test_they_go_with_the_interpreter():
    with_values = CodeInterpreter(settings())
    run(with_values, "x = 1")
    with_values.close()
    other = CodeInterpreter(settings())
    try:
        assert "NameError" in run(other, "x").details["executionError"]
    finally:
        other.close()
