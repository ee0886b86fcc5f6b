"""A Lambda function in AWS as an executor."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from orchestrator.actions.base import ActionResult, Call, CallContext
from orchestrator.actions.lambda_contract import (
    DONE,
    LARGEST_PAYLOAD,
    lambda_event,
    read_response,
)
from orchestrator.actions.lambda_environment import LONGEST_SECONDS
from orchestrator.errors import ActionOutcomeUnknown, DefinitionError, DependencyFailed
from orchestrator.support.aws import (
    Settings,
    Target,
    body_of,
    failure,
    get_shared_client,
    is_unsent,
)
from orchestrator.support.safe_json import json_or

_ARN = re.compile(
    r"arn:aws[a-z-]*:lambda:(?P<region>[a-z]{2}[a-z-]*-\d):\d{12}:function:"
    r"(?P<name>[A-Za-z0-9_-]{1,140})(?::(?P<qualifier>\$LATEST|[A-Za-z0-9_-]{1,128}))?"
)
_ERROR_TYPE = re.compile(r"[A-Za-z_][\w.]{0,99}")

_repeatable: ContextVar[bool] = ContextVar("lambda_repeatable", default=True)


class LambdaArn:
    """Calls a Lambda function in AWS through boto3, with Bedrock's event and response.

    The client is made at the first call, one for each region, and shared. boto3 finds the
    credentials, and the endpoint: `AWS_ENDPOINT_URL_LAMBDA` leads to a local Lambda. Requests that
    Lambda throttled, and connections that failed before anything was sent, are tried again as
    botocore's standard mode does; a request that may have arrived is sent again only when the
    operation is idempotent.

    Attributes:
        arn: The function's ARN.
        name: The function's name.
        region: Its region.
    """

    def __init__(self, arn: str, *, client: Any = None) -> None:
        """Makes the executor; nothing is imported or sent yet.

        Args:
            arn: The function's ARN; a version or an alias may follow its name.
            client: A boto3 client for Lambda to use instead of the shared one.

        Raises:
            DefinitionError: It is no ARN of a Lambda function.
        """
        found = _ARN.fullmatch(arn) if isinstance(arn, str) else None
        if found is None:
            raise DefinitionError(
                f"{arn!r} is not the ARN of a Lambda function; one looks like "
                "'arn:aws:lambda:eu-central-1:123456789012:function:claims', with ':<alias>' or "
                "':<version>' after it if there is one"
            )
        self.arn = arn
        self.name = found["name"]
        self.region = found["region"]
        self._client = client
        if client is not None:
            _disable_unsafe_retries(client)

    def __repr__(self) -> str:
        return f"LambdaArn({self.arn!r})"

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Invokes the function with Bedrock's event and reads its response.

        Raises:
            DependencyFailed: The function raised, or could not be invoked.
            ActionOutcomeUnknown: Nobody knows whether the function ran.
        """
        operation, event = call.operation, lambda_event(call, context)
        repeatable, name = operation.idempotent, operation.xml_name
        return read_response(self._invoke(event, context.seconds, repeatable, name), operation)

    def invoke(self, event: Mapping[str, Any], *, seconds: float | None = None) -> Any:
        """Invokes the function with any event, for functions without effects such as parsers.

        Without `seconds`, Lambda's own limit of 900 holds. Gives what the function returned: JSON
        data, or the text of a payload that is no JSON.

        Raises:
            DependencyFailed: The function raised, or could not be invoked; `AccessDenied` and
                `ThrottlingError` are kinds of it.
        """
        return self._invoke(event, seconds, True, self.name)

    def _invoke(
        self, event: Mapping[str, Any], seconds: float | None, repeatable: bool, resource: str
    ) -> Any:
        what = f"the Lambda function {self.name!r} in {self.region}"
        payload = json.dumps(event, ensure_ascii=False, default=str).encode("utf-8", "replace")
        if len(payload) > LARGEST_PAYLOAD:
            raise DependencyFailed(
                f"the event for {what} has {len(payload)} bytes; Lambda takes at most "
                f"{LARGEST_PAYLOAD}",
                resource=resource,
            )
        target = Target(
            what,
            resource,
            f"allow lambda:InvokeFunction on {self.arn}",
            quoted=frozenset(("AccessDeniedException",)),
            callers=False,
            region=self.region,
        )
        longest = LONGEST_SECONDS if seconds is None else min(seconds, LONGEST_SECONDS)
        settings = Settings("lambda", self.region, read_timeout=longest)
        client = self._client or get_shared_client(settings, target, _disable_unsafe_retries)
        token = _repeatable.set(repeatable)
        response: dict[str, Any] = {}
        try:
            response = client.invoke(FunctionName=self.arn, Payload=payload)
            body = body_of(response["Payload"], LARGEST_PAYLOAD)
        except Exception as error:
            failed = failure(error, target)
            if failed is None:
                raise
            if response and not (repeatable or response.get("FunctionError")):
                return f"{DONE} broke off ({type(error).__name__}), and is not shown."
            if repeatable or is_unsent(error):
                raise failed from None
            raise ActionOutcomeUnknown(
                f"{what} was asked to run, and its answer did not arrive ({type(error).__name__}); "
                "it may have taken effect, and was not asked again",
                resource=resource,
            ) from None
        finally:
            _repeatable.reset(token)
        if len(body) > LARGEST_PAYLOAD and not (repeatable or response.get("FunctionError")):
            return f"{DONE} has more than {LARGEST_PAYLOAD} bytes, and is not shown."
        return _read_result(response, body, what, resource)


def _read_result(response: Mapping[str, Any], body: bytes, what: str, resource: str) -> Any:
    if len(body) > LARGEST_PAYLOAD:
        raise DependencyFailed(
            f"{what} returned more than {LARGEST_PAYLOAD} bytes, which is more than Lambda allows",
            resource=resource,
        )
    text = body.decode("utf-8", "replace")
    returned = json_or(text, text) if text else None
    if response.get("FunctionError"):
        name = returned.get("errorType") if isinstance(returned, dict) else None
        # An error's type may come from anywhere, too: only what looks like a name is shown.
        kind = name if isinstance(name, str) and _ERROR_TYPE.fullmatch(name) else "an error"
        raise DependencyFailed(
            f"{what} raised {kind}; its own message is kept out of this one, since it may hold "
            "what nobody else may read: see the function's log",
            resource=resource,
        )
    return returned


# Botocore sends a call again after a read timeout or a 500; such a call may have taken effect.
def _disable_unsafe_retries(client: Any) -> None:
    client.meta.events.register_first(
        "needs-retry.lambda.Invoke", _may_repeat, unique_id="orchestrator-repeat"
    )


def _may_repeat(response: Any = None, caught_exception: Any = None, **_: Any) -> bool | None:
    # False, as the first answer, ends the retries; None leaves them to botocore's own handler.
    if _repeatable.get():
        return None
    if caught_exception is not None:
        return None if is_unsent(caught_exception) else False
    return None if response is None or response[0].status_code < 500 else False
