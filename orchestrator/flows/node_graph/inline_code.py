"""Inline code: a program in the sandbox, with a node's inputs as variables.

The result is the value of the program's last line, when that is an expression (AWS: "Inline code
node"); it comes back as a file of JSON, so that nothing that the program prints is taken for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.actions import ActionResult, Call, CallContext, Executor
from orchestrator.actions.code_interpreter import code_operation
from orchestrator.errors import DependencyFailed
from orchestrator.message import to_json
from orchestrator.support.safe_json import load_json

_RESULT = "flow_node_result.json"
# It runs in the sandbox alone. The texts are Python literals: what is in them is never program.
_PROGRAM = """\
import ast as _ast, json as _json

def _run(source, names):
    tree = _ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
    exec(compile(tree, "<inline code>", "exec"), names)
    if last is None:
        return None
    return eval(compile(_ast.Expression(last.value), "<inline code>", "eval"), names)

_value = _run({source}, {{"__name__": "__main__", **_json.loads({values})}})
with open({file}, "w") as _file:
    _file.write(_json.dumps(_value))
"""


def run_inline_code(
    interpreter: Executor,
    code: str,
    values: Mapping[str, Any],
    *,
    session_id: str,
    tenant: str,
    seconds: float | None,
    result_bytes: int,
) -> Any:
    """The value of a program's last line.

    Args:
        interpreter: The sandbox.
        code: The program.
        values: The variables that it begins with.
        session_id: Whose files it sees: a new one for each run of a node.
        tenant: The tenant of the session.
        seconds: How long it may take.
        result_bytes: How long its result may be, as JSON.

    Raises:
        DependencyFailed: It failed, was ended, or its result is no JSON data.
    """
    program = _PROGRAM.format(source=repr(code), values=repr(to_json(values)), file=repr(_RESULT))
    call = Call(session_id, code_operation(), {"code": program})
    context = CallContext({}, session_id, "", {}, {}, result_bytes, seconds, tenant=tenant)
    return _read_result(interpreter.call(call, context))


def _read_result(result: ActionResult) -> Any:
    found = next((it["bytes"] for it in result.files if it["name"] == _RESULT), None)
    if found is None:
        raise DependencyFailed(f"its code gave no result: {_describe(result)}")
    try:
        return load_json(found)
    except (ValueError, RecursionError):
        raise DependencyFailed("the result of its code is no JSON data") from None


def _describe(result: ActionResult) -> str:
    error = (result.details or {}).get("executionError") or result.text
    lines = str(error).strip().splitlines()
    return lines[-1][:500] if lines else "it ended without one"
