"""Functions that cannot be called as they are going to be: said by name and line as they load."""

import functools
import re
from contextlib import nullcontext

import pytest

from orchestrator import ActionGroup, Agent
from orchestrator.actions import ActionResult, LambdaHandler, LambdaProcess
from orchestrator.actions.handlers import LambdaFunction
from orchestrator.actions.parser_lambda import parser_function
from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.flows.custom import PythonOrchestration
from orchestrator.testing import ScriptedModel

CALL = [{"toolUse": {"toolUseId": "t-1", "name": "hr__days", "input": {}}}]
FUNCTIONS = [{"name": "days", "description": "Days left."}]
WRITE = "write `def lambda_handler(event, context):`"


@pytest.fixture
def write(tmp_path):
    def write(text, name="handler.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def ask(executor):
    group = ActionGroup("hr", functions=FUNCTIONS, executor=executor)
    model = ScriptedModel([CALL, "<answer>Done."])
    return Agent("hr", "You answer questions about vacations.", model=model, action_groups=[group])


@pytest.mark.parametrize("kind", [LambdaHandler, LambdaProcess])
@pytest.mark.parametrize(
    "parameters", ["event", "", "event, context, more", "event, *, context", "*, event, context"]
)
def test_a_handler_file_is_refused_with_its_line(write, kind, parameters):
    file = write(f"import os\n\n\ndef lambda_handler({parameters}):\n    return {{}}\n")
    with pytest.raises(DefinitionError) as caught:
        kind(file)
    assert (caught.value.file, caught.value.line) == (str(file), 4)
    assert caught.value.reason == (
        "the handler 'lambda_handler' is called with (event, context), but cannot take them: "
        "write `def lambda_handler(event, context):`"
    )


@pytest.mark.parametrize(
    "text",
    [
        "def lambda_handler(event, context=None): pass",
        "def lambda_handler(event, context, more=1, *, other=2): pass",
        "def lambda_handler(*arguments): pass",
        "async def lambda_handler(event, _, /): pass",
        "lambda_handler = lambda event, context: {}",
        # What these are is not known before they run.
        "def add(function): return lambda event, context: {}\n@add\ndef lambda_handler(): pass",
        "def lambda_handler(event): pass\nlambda_handler = print",
        "if True:\n    def lambda_handler(event, context): pass\nelse:\n    lambda_handler = None",
        "def lambda_handler(): pass\ntry: pass\nexcept OSError as lambda_handler: pass",
        "def lambda_handler(): pass\nmatch [1]:\n    case [*lambda_handler]: pass",
        "def lambda_handler(): pass\nmatch {}:\n    case {**lambda_handler}: pass",
        "def lambda_handler(): pass\nmatch print:\n    case lambda_handler: pass",
    ],
)
def test_a_handler_that_can_be_called_so_is_taken(write, text):
    assert LambdaHandler(write(text)).function == "lambda_handler"


def test_an_imported_handler_is_refused_as_it_is_called(write):
    write("def lambda_handler(event):\n    return {}\n", "claims.py")
    file = write("from claims import lambda_handler\n")
    with pytest.raises(DependencyFailed) as caught:
        ask(LambdaHandler(file)).invoke("How many?")
    assert caught.value.message.startswith("claims.py:1: the handler 'lambda_handler' is called")
    assert WRITE in caught.value.message


DECORATED = (
    "import functools\ndef add(function):\n    @functools.wraps(function)\n"
    "    def call({}): return function({})\n    return call\n"
    "@add\ndef lambda_handler({}):\n    return {}\n"
)  # the parameters of both, what is handed on, and what is returned


def test_so_is_a_decorated_one(write):
    file = write(DECORATED.format("event", "event", "event", "{}"))
    with pytest.raises(DependencyFailed, match=r"handler\.py:3: the handler 'lambda_handler' is"):
        ask(LambdaHandler(file)).invoke("How many?")


@pytest.mark.parametrize("result", ["{}", "'a' + 1"])
def test_what_a_decorator_gives_a_handler_is_its_own_affair(write, result):
    given = "event, context"
    file = write(DECORATED.format(given, f"{given}, 3", f"{given}, db", result))
    raises = pytest.raises(DependencyFailed, match=r"raised TypeError at handler\.py:8")
    with raises if "+" in result else nullcontext():
        ask(LambdaHandler(file)).invoke("How many?")


def test_a_type_error_of_a_good_handler_stays_what_it_is(write):
    file = write("def lambda_handler(event, context):\n    return 1 + ''\n")
    with pytest.raises(DependencyFailed, match=r"raised TypeError at handler\.py:2"):
        ask(LambdaHandler(file)).invoke("How many?")


def test_a_function_is_refused_with_its_file_and_line():
    def handle(event):
        return {}

    line = handle.__code__.co_firstlineno
    for make in (LambdaFunction, functools.partial(_stand_in, "claims")):
        with pytest.raises(DefinitionError, match="write `def handle\\(event, context\\):`") as it:
            make(handle)
        assert (it.value.file, it.value.line) == (__file__, line)


class _Handler:
    def __call__(self, event):
        return {}

    def handle(self, event, context, more):
        return {}


@pytest.mark.parametrize(
    ("handler", "code", "written"),
    [
        (
            functools.partial(_Handler().handle),
            _Handler.handle,
            "def handle(self, event, context):",
        ),
        (_Handler(), _Handler.__call__, "def __call__(self, event, context):"),
    ],
)
def test_so_are_partial_functions_and_objects_that_are_called(handler, code, written):
    with pytest.raises(DefinitionError, match=re.escape(f"write `{written}`")) as caught:
        LambdaFunction(handler)
    line = code.__code__.co_firstlineno
    assert (caught.value.file, caught.value.line) == (__file__, line)


@pytest.mark.parametrize("handler", [functools.partial(_Handler().handle, more=1), print])
def test_a_partial_function_that_can_be_called_so_is_taken(handler):
    assert LambdaFunction(handler)


def test_what_a_partial_function_raises_has_its_place():
    def handle(more, event, context):
        raise KeyError(more)

    line = handle.__code__.co_firstlineno + 1
    handler = LambdaFunction(functools.partial(handle, 1))
    with pytest.raises(DependencyFailed, match=rf"raised KeyError at {__name__}\.py:{line};"):
        ask(handler).invoke("How many?")


def _stand_in(name, handler):
    from orchestrator.testing.stubs import Lambdas

    Lambdas(None)[name] = handler


def test_an_executor_takes_the_call_and_its_context():
    class Vacations:
        def call(self, call):
            return ActionResult("13")

    with pytest.raises(DefinitionError) as caught:
        ask(Vacations())
    assert caught.value.file == __file__
    assert caught.value.reason == (
        "the Vacations method 'call' is called with (call, context), but cannot take them: write "
        "`def call(self, call, context):`"
    )


def test_what_an_executor_raises_has_its_place():
    class Vacations:
        def call(self, call, context):
            raise KeyError(call.key)

    line = Vacations.call.__code__.co_firstlineno + 1
    with pytest.raises(DependencyFailed, match=f"raised KeyError at {__name__}.py:{line};"):
        ask(Vacations()).invoke("How many?")


def test_a_parser_may_leave_the_context_out_but_not_the_event(write):
    parser_function(str(write("def lambda_handler(event): return {}\n")))
    with pytest.raises(
        DefinitionError, match=f"the parser 'lambda_handler' is called .* {WRITE[:9]}"
    ):
        parser_function(str(write("def lambda_handler(): return {}\n")))


def test_an_orchestration_takes_the_turn():
    with pytest.raises(DefinitionError, match=r"the orchestration 'run' is called with \(turn\)"):
        PythonOrchestration(_run_nothing())
    with pytest.raises(DefinitionError, match=r"write `lambda turn: \.\.\.`"):
        PythonOrchestration(lambda: "")


def _run_nothing():
    def run():
        return ""

    return run
