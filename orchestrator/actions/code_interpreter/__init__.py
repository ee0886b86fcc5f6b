"""`AMAZON.CodeInterpreter`: Python programs that a model wrote, run in a sandbox.

- `executor`: `CodeInterpreter`, what an agent uses
- `scratch`, `files`: the files of a session, in and out
- `process`: one program, with its limits
- `jail`: what runs in the program's own process, and locks it up
"""

from orchestrator.actions.code_interpreter.executor import (
    CODE_INTERPRETER_GROUP,
    CodeInterpreter,
    code_operation,
)
from orchestrator.actions.code_interpreter.files import file_name
from orchestrator.actions.code_interpreter.settings import CodeInterpreterSettings

__all__ = [
    "CODE_INTERPRETER_GROUP",
    "CodeInterpreter",
    "CodeInterpreterSettings",
    "code_operation",
    "file_name",
]
