"""The one operation of the code interpreter, as models know it from Bedrock."""

from __future__ import annotations

from orchestrator.actions.base import Operation, Parameter

__all__ = ["CODE_INTERPRETER_GROUP", "code_operation"]

CODE_INTERPRETER_GROUP = "codeinterpreteraction"
"""The group's name in the operation's tool name (Bedrock: recorded); users cannot take it."""

_DESCRIPTION = (
    "Run a Python program, for calculations, data and charts, and get what it prints, the value of "
    "its last expression, and the files it makes. The user's files are in the working folder, and "
    "files that you write there stay for your next program; variables do not. There is no "
    "network, and no other process can be started."
)


def code_operation() -> Operation:
    """`get::codeinterpreteraction::execute`, with the parameter `code`.

    It may be run again when its outcome is unknown: what a stopped process had done is gone with
    its scratch folder.
    """
    described = {"type": "string", "description": "The Python program, whole."}
    return Operation(
        group=CODE_INTERPRETER_GROUP,
        name="execute",
        description=_DESCRIPTION,
        parameters=(
            Parameter("code", "string", described["description"], True, "query", described),
        ),
        verb="get",
        path="execute",
        idempotent=True,
        schema={"type": "object", "properties": {"code": described}, "required": ["code"]},
    )
