"""`@action`: what the model sees of a Python function, and what happens when it is called."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import subprocess
import sys
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from action_support import SECRET, catalog, context, run
from pydantic import BaseModel, Field

from orchestrator.actions import ActionGroup, ActionResult, Call, CallContext, Reprompt, action
from orchestrator.errors import DefinitionError, DependencyFailed


class Status(enum.Enum):
    OPEN = "open"
    CLOSED = "closed"


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1


class Person(BaseModel):
    name: str = Field(description="Full name.")
    address: Optional[Address] = None  # noqa: UP045


class Tree(BaseModel):
    children: list[Tree] = []


def operation(function: Any) -> Any:
    return ActionGroup("tools", [function]).operations[0]


def schema(function: Any) -> dict[str, Any]:
    return {parameter.name: dict(parameter.schema) for parameter in operation(function).parameters}


def test_the_docstring_describes_the_function_and_its_arguments() -> None:
    @action
    def plan(day: str, hours: float = 8.0) -> str:
        """Plans a day
        of work.

        Only for working days.

        Args:
            day (str): The day: as YYYY-MM-DD,
                in the future.
            hours: How long.

        Returns:
            Not for the model.
        """
        return day

    made = operation(plan)
    assert made.description == "Plans a day of work.\nOnly for working days."
    assert [p.description for p in made.parameters] == [
        "The day: as YYYY-MM-DD, in the future.",
        "How long.",
    ]
    assert made.schema == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "The day: as YYYY-MM-DD, in the future."},
            "hours": {"type": "number", "description": "How long.", "default": 8.0},
        },
        "required": ["day"],
        "additionalProperties": False,
    }
    assert plan("2027-01-04") == "2027-01-04"
    assert plan.__doc__ is not None and plan.__name__ == "plan"


def test_types_become_schemas() -> None:
    def everything(
        text: str,
        whole: int,
        number: float,
        flag: bool,
        names: list[str],
        free: dict[str, Any],
        choice: Literal["a", "b"],
        status: Status,
        maybe: int | None,
        when: datetime.date,
        address: Address,
        person: Person,
        noted: Annotated[str, "A note."],
        bounded: Annotated[int, Field(ge=1, le=9)],
    ) -> None: ...

    assert schema(everything) == {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object", "additionalProperties": True},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "status": {"type": "string", "enum": ["open", "closed"]},
        "maybe": {"type": "integer"},
        "when": {"type": "string", "format": "date"},
        "address": {
            "type": "object",
            "required": ["street"],
            "properties": {
                "street": {"type": "string"},
                "number": {"type": "integer", "default": 1},
            },
        },
        "person": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "Full name."},
                "address": {
                    "type": "object",
                    "required": ["street"],
                    "properties": {
                        "street": {"type": "string"},
                        "number": {"type": "integer", "default": 1},
                    },
                },
            },
        },
        "noted": {"type": "string", "description": "A note."},
        "bounded": {"type": "integer", "minimum": 1, "maximum": 9},
    }


def test_a_parameter_without_annotation_has_its_defaults_type_or_is_a_text() -> None:
    def loose(name, size=3, flag=False, other=None): ...  # type: ignore[no-untyped-def]

    assert [(p.type, p.required) for p in operation(loose).parameters] == [
        ("string", True),
        ("integer", False),
        ("boolean", False),
        ("string", False),
    ]


def test_values_arrive_as_the_annotated_types() -> None:
    seen: list[Any] = []

    def take(
        status: Status,
        when: datetime.datetime,
        person: Person,
        tags: list[int],
        maybe: Optional[str],  # noqa: UP045
        size: int = 5,
    ) -> None:
        seen.extend([status, when, person, tags, maybe, size])

    made = ActionGroup("tools", [take])
    run(
        made,
        "take",
        status="OPEN",
        when="2027-03-01T10:00:00",
        person='{"name": "Jo", "address": {"street": "Main", "number": "7"}}',
        tags="1, 2",
    )
    assert seen == [
        Status.OPEN,
        datetime.datetime(2027, 3, 1, 10),
        Person(name="Jo", address=Address("Main", 7)),
        [1, 2],
        None,
        5,
    ]


def test_a_value_that_pydantic_refuses_goes_back_to_the_model() -> None:
    def take(when: datetime.date) -> str:
        return "never"

    result = run(ActionGroup("tools", [take]), "take", when="tomorrow")
    assert result.state == "REPROMPT"
    assert "argument when in the take function call" in result.text


class Opaque:
    def __repr__(self) -> str:
        return "opaque"


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("as it is", "as it is"),
        (None, ""),
        ({"größe": Decimal("5")}, '{"größe": 5}'),
        ([Decimal("1.5"), Decimal("NaN"), {2, 1}], '[1.5, "NaN", [1, 2]]'),
        (Address("Main", 2), '{"street": "Main", "number": 2}'),
        ([Person(name="Jo")], '[{"name": "Jo", "address": null}]'),
        (Status.OPEN, '"open"'),
        (datetime.date(2027, 1, 2), '"2027-01-02"'),
        ((b"ok", b"\xff"), '["ok", "/w=="]'),
        (True, "true"),
    ],
)
def test_a_returned_value_becomes_text(returned: Any, text: str) -> None:
    def give() -> Any:
        return returned

    assert run(ActionGroup("tools", [give]), "give").text == text


def test_a_value_without_json_form_is_the_functions_failure() -> None:
    def give() -> Any:
        return Opaque()

    result = run(ActionGroup("tools", [give]), "give")
    assert (result.text, result.state) == (
        "The action was carried out: do not repeat it. Its result cannot be shown.",
        "",
    )
    assert "'tools::give' returned a Opaque" in result.notes[0]
    with pytest.raises(DependencyFailed, match="'tools::give' returned a Opaque"):
        run(ActionGroup("tools", [action(idempotent=True)(give)]), "give")


def test_an_action_may_return_a_whole_result() -> None:
    def remember() -> ActionResult:
        return ActionResult("done", session_attributes={"seen": "yes"})

    assert run(ActionGroup("tools", [remember]), "remember").session_attributes == {"seen": "yes"}


def test_the_context_is_given_and_is_not_part_of_the_schema() -> None:
    def who(context: CallContext, prefix: str = "I am ") -> str:
        return prefix + context.session_attributes["employeeId"]

    assert list(schema(who)) == ["prefix"]
    assert run(ActionGroup("tools", [who]), "who").text == "I am E-1"


def test_an_annotation_only_imported_for_type_checkers_still_means_the_context() -> None:
    namespace: dict[str, Any] = {}
    exec(
        "from __future__ import annotations\n"
        "def who(context: CallContext) -> str:\n    return context.session_id\n",
        namespace,
    )
    assert run(ActionGroup("tools", [namespace["who"]]), "who").text == "s-1"


def test_an_exception_names_the_action_the_type_and_the_place_and_no_payload() -> None:
    def fail(claim_id: str) -> str:
        raise KeyError(f"{SECRET} {claim_id}")

    with pytest.raises(DependencyFailed) as caught:
        run(ActionGroup("tools", [fail]), "fail", claim_id=SECRET)
    assert "'tools::fail' raised KeyError at test_python_actions.py:" in caught.value.message
    assert SECRET not in caught.value.message
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.resource == "tools::fail"


def test_reprompt_talks_to_the_model() -> None:
    def cancel(request: str) -> str:
        raise Reprompt("Ask for the request's number.")

    result = run(ActionGroup("tools", [cancel]), "cancel", request="x")
    assert (result.state, result.text) == ("REPROMPT", "Ask for the request's number.")


def test_async_functions_run_in_both_worlds() -> None:
    @action
    async def slow(who: str) -> str:
        await asyncio.sleep(0)
        return f"slow {who}"

    @action
    def quick() -> str:
        return "quick"

    made = catalog(slow, quick)
    assert run(made, "slow", who="a").text == "slow a"

    async def in_a_loop() -> list[str]:
        executors: Any = made.executor(made.operations[0])
        calls = [Call("1", made.operations[0], {"who": "b"}), Call("2", made.operations[1], {})]
        awaited = [(await executors.acall(call, context())).text for call in calls]
        return [*awaited, executors.call(calls[0], context()).text]

    assert asyncio.run(in_a_loop()) == ["slow b", "quick", "slow b"]


def test_a_group_without_async_functions_has_no_acall() -> None:
    def quick() -> str:
        return ""

    made = catalog(quick)
    assert not hasattr(made.executor(made.operations[0]), "acall")


def test_an_async_failure_is_typed_as_well() -> None:
    async def fail() -> str:
        raise OSError(SECRET)

    made = catalog(fail)
    executor: Any = made.executor(made.operations[0])
    says = "'tools::fail' raised OSError at test_python_actions.py:"
    with pytest.raises(DependencyFailed, match=says):
        run(made, "fail")
    with pytest.raises(DependencyFailed, match=says):
        asyncio.run(executor.acall(Call("1", made.operations[0], {}), context()))


def test_methods_are_actions_of_their_object() -> None:
    class Store:
        def __init__(self) -> None:
            self.items = ["a"]

        @action(name="list-items", idempotent=True)
        def items_(self) -> list[str]:
            """Lists."""
            return self.items

    made = ActionGroup("tools", [Store().items_])
    assert (made.operations[0].idempotent, made.operations[0].description) == (True, "Lists.")
    assert run(made, "list-items").text == '["a"]'


def test_options_reach_the_operation() -> None:
    @action(name="remove", require_confirmation=True)
    def f() -> None: ...

    made = operation(f)
    assert (made.name, made.require_confirmation, made.idempotent) == ("remove", True, False)


def _rest(*parts: str) -> None: ...
def _options(**parts: str) -> None: ...
def _positional(a: str, /) -> None: ...
def _unknown_type(a: Opaque) -> None: ...
def _recursive(a: Tree) -> None: ...
def _undefined(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _bad__name() -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (action(name="f")(_rest), "'tools::f' has the variadic positional parameter 'parts'"),
        (action(name="f")(_options), "'tools::f' has the variadic keyword parameter 'parts'"),
        (action(name="f")(_positional), "has the positional-only parameter 'a'"),
        (
            action(name="f")(_unknown_type),
            "parameter 'a' of .*'tools::f' has the type 'Opaque'.*allowed are str, int",
        ),
        (action(name="f")(_recursive), "parameter 'a' of .*recursive"),
        (action(name="f")(_undefined), "the type 'Nowhere' of the parameter 'a'"),
        (_bad__name, "name '_bad__name' is not possible.*try 'bad_name'"),
        (lambda: None, "name '<lambda>' is not possible.*try 'lambda'"),
    ],
)
def test_what_no_model_can_be_given_is_refused(function: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        ActionGroup("tools", [function])


def test_simple_actions_do_not_import_pydantic() -> None:
    code = (
        "import sys\nfrom orchestrator.actions import ActionGroup, Catalog\n"
        "def f(a: str, n: int = 1) -> str: return a\n"
        "Catalog([ActionGroup('g', [f])])\n"
        "print([m for m in ('pydantic', 'boto3', 'yaml', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
