"""What AWS and boto3 raise, as errors of the tree: about what was asked, without what was sent."""

from __future__ import annotations

import traceback
from dataclasses import replace

import pytest
from botocore import exceptions as boto

from orchestrator.errors import (
    AccessDenied,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    ThrottlingError,
    ValidationError,
)
from orchestrator.support.aws import (
    Target,
    failure,
    is_unsent,
    translate_errors,
)

TARGET = Target("the thing 'x'", "x", "allow it:Use", "look there", "the other thing")
SENT = "what was sent"


def refusal(code: str, status: int = 400, text: str = f"AWS says: {SENT}") -> boto.ClientError:
    meta = {"HTTPStatusCode": status, "RequestId": "r-1"}
    response = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": meta}
    return boto.ClientError(response, "Use")


def of(error: Exception, target: Target = TARGET) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught, translate_errors(target):
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("code", "status", "kind", "told"),
    [
        ("ExpiredTokenException", 403, AccessDenied, "sign in again: set AWS_PROFILE"),
        ("InvalidAccessKeyId", 403, AccessDenied, "or use the other thing, which needs no account"),
        ("AccessDenied", 403, AccessDenied, "was denied"),
        ("", 403, AccessDenied, "allow it:Use"),
        ("modelNotReadyException", 0, ModelNotReady, "try again in a minute"),
        ("SlowDown", 503, ThrottlingError, "after retries"),
        ("", 429, ThrottlingError, "after retries"),
        ("RequestTimeTooSkewed", 403, AccessDenied, "set this machine's clock"),
        ("401", 401, AccessDenied, "refused the credentials"),
        ("400", 400, ValidationError, "refused the request (400, request r-1)"),
        ("NoSuchKey", 404, ResourceNotFound, "look there"),
        ("ValidationException", 400, ValidationError, "refused the request"),
        ("throttlingException", 0, ThrottlingError, "(ThrottlingException, request r-1)"),
        ("InternalServerException", 500, DependencyFailed, "failed"),
    ],
)
def test_each_refusal_has_its_error(code: str, status: int, kind: type, told: str) -> None:
    error = of(refusal(code, status))
    assert type(error) is kind
    assert "the thing 'x'" in error.message
    assert "request r-1" in error.message
    assert told in error.message
    assert getattr(error, "resource", "x") == "x"


def test_a_signature_of_another_time_is_a_matter_of_the_clock() -> None:
    text = "Signature expired: 20260101T000000Z is now earlier than 20260101T010000Z"
    found = of(refusal("InvalidSignatureException", 403, text))
    assert "set this machine's clock" in found.message and "sign in" not in found.message


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchKey", "ValidationException", "Odd"])
def test_aws_is_quoted_only_where_it_may_be(code: str) -> None:
    target = replace(TARGET, quoted=frozenset(("AccessDenied",)))
    assert SENT in of(refusal(code)).message
    quiet = of(refusal(code), target)
    assert (SENT in quiet.message) == (code == "AccessDenied")
    assert (SENT in "".join(traceback.format_exception(quiet))) == (code == "AccessDenied")
    assert SENT not in str(quiet.__context__)


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "ValidationException"])
def test_what_the_caller_did_not_choose_is_a_failed_dependency(code: str) -> None:
    error = of(refusal(code), replace(TARGET, callers=False))
    assert type(error) is DependencyFailed
    assert error.resource == "x"


def test_wrong_parameters_are_named_without_their_values() -> None:
    report = (
        f'Unknown parameter in a.b: "c", must be one of: d\nInvalid type for parameter e, {SENT}'
    )
    error = of(boto.ParamValidationError(report=report))
    assert type(error) is ValidationError
    assert error.message.endswith("missing, unknown or of another kind: a.b.c, e")
    assert SENT not in repr(error.__context__) + str(error.__context__)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (boto.NoRegionError(), AccessDenied, "no AWS region is known for the thing 'x'"),
        (boto.NoCredentialsError(), AccessDenied, "no usable AWS credentials for the thing 'x'"),
        (boto.ProfileNotFound(profile="p"), AccessDenied, "has no such profile (ProfileNotFound)"),
        (boto.ReadTimeoutError(endpoint_url="u"), DependencyFailed, "ReadTimeoutError"),
        (ConnectionResetError("gone"), DependencyFailed, "could not be reached"),
    ],
)
def test_what_happens_on_the_way(error: Exception, kind: type, told: str) -> None:
    assert type(of(error)) is kind
    assert told in of(error).message


def test_what_is_wrong_in_the_configuration_is_for_who_runs_the_program() -> None:
    words = "Bearer authorization requires an HTTPS endpoint."
    found = of(boto.InvalidEndpointConfigurationError(msg=words))
    assert isinstance(found, AccessDenied)
    assert "configuration cannot be used for the thing 'x'" in found.message
    assert words in found.hint and words not in found.message


def test_a_certificate_that_nobody_vouches_for_has_a_way_out() -> None:
    found = of(boto.SSLError(endpoint_url="u", error="e"))
    assert type(found) is DependencyFailed
    assert "(SSLError)" in found.message and "AWS_CA_BUNDLE names a file" in found.message


def test_only_who_runs_the_program_reads_the_name_of_a_profile_that_is_not_there() -> None:
    found = of(boto.ProfileNotFound(profile="p-of-somebody"))
    assert isinstance(found, AccessDenied)
    assert "p-of-somebody" not in found.message
    assert found.hint.startswith("asked with the profile 'p-of-somebody'; `aws configure")


def test_what_cannot_be_reached_was_asked_for_in_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    error = boto.EndpointConnectionError(endpoint_url="u")
    assert "check the network, the region and the endpoint" in of(error).message
    monkeypatch.setenv("AWS_REGION", "nowhere-1")
    assert "check the network, the region 'nowhere-1' and the endpoint" in of(error).message


def test_a_defect_stays_itself_and_an_error_of_the_tree_too() -> None:
    assert failure(KeyError("x"), TARGET) is None
    with pytest.raises(KeyError), translate_errors(TARGET):
        raise KeyError("x")
    mine = ThrottlingError("mine", resource="y")
    assert of(mine) is mine


@pytest.mark.parametrize(
    ("error", "unsent"),
    [
        (refusal("ValidationException", 400), True),
        (refusal("InternalServerException", 500), False),
        (boto.EndpointConnectionError(endpoint_url="u"), True),
        (boto.ReadTimeoutError(endpoint_url="u"), False),
        (boto.ConnectionClosedError(endpoint_url="u"), False),
    ],
)
def test_what_may_have_arrived(error: Exception, unsent: bool) -> None:
    assert is_unsent(error) is unsent
