"""The code that stands for Lambda functions on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.actions.handler_files import check_handler, handler_file
from orchestrator.errors import ValidationError

LambdaCode = Callable[..., Any] | str
"""What stands for a Lambda function: a callable of event and context, or `<file>:<function>`."""


class Lambdas:
    """Code by the names or ARNs of the Lambda functions that it stands for."""

    def __init__(
        self, specs: Mapping[str, str], functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        """Checks the files of `specs`; functions win over them.

        Raises:
            DefinitionError: A file is wrong, or not there.
            ValidationError: A spec is neither FILE nor FILE:FUNCTION.
        """
        self._code: dict[str, LambdaCode] = {
            **{name: _check_spec(name, spec) for name, spec in specs.items()},
            **(functions or {}),
        }

    def find(self, arn: str) -> LambdaCode | None:
        """The code for a function's ARN (also of a version or alias) or name, if there is any."""
        parts = arn.split(":")
        is_arn = parts[0] == "arn" and parts[2:6:3] == ["lambda", "function"] and len(parts) > 6
        names = (arn, ":".join(parts[:7]), parts[6]) if is_arn else (arn,)
        return next((self._code[name] for name in names if name in self._code), None)


def _check_spec(name: str, spec: str) -> str:
    file, _, function = spec.rpartition(":")
    if spec.endswith(".py"):
        # AWS Lambda: the handler's usual name.
        file, function = spec, "lambda_handler"
    if not file or not function.isidentifier():
        raise ValidationError(
            f"the Lambda function {name!r} has to be FILE or FILE:FUNCTION, such as "
            f"'claims.py:lambda_handler', not {spec!r}"
        )
    path = handler_file(file, None, f"handler of the Lambda function {name!r},")
    check_handler(path, function)
    return f"{path}:{function}"
