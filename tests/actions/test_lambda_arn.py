"""Lambda functions in AWS: over Lambda's own wire, with botocore's stubs, and in moto."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from action_support import SECRET, context, run
from botocore.response import StreamingBody
from botocore.stub import Stubber
from loopback import Sent, Site
from moto import mock_aws
from waiting import until

from orchestrator.actions import ActionGroup, LambdaArn
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    ThrottlingError,
)

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:claims:live"
FUNCTIONS = [{"name": "open", "parameters": {"who": {"type": "string", "required": True}}}]
API = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/claims": {"get": {"operationId": "list", "description": "d", "responses": {}}}},
}


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Site().running() as site:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", site.url("127.0.0.1"))
        yield site


def functions(executor: Any = None) -> ActionGroup:
    return ActionGroup("claims", functions=FUNCTIONS, executor=executor or LambdaArn(ARN))


def answered(body: object, **members: Any) -> bytes:
    inner = {"responseBody": {"TEXT": {"body": body}}}
    response = {"actionGroup": "claims", "function": "open", "functionResponse": inner}
    return json.dumps({"messageVersion": "1.0", "response": response, **members}).encode()


def problem(code: str, status: int) -> Sent:
    return Sent(
        json.dumps({"Type": "User", "message": f"{SECRET} is wrong"}).encode(),
        status,
        {"x-amzn-ErrorType": code, "x-amzn-RequestId": "r-1"},
    )


def test_the_event_and_the_response_are_bedrocks(site: Site) -> None:
    site.answers = [Sent(answered("3 open", sessionAttributes={"last": "c-1"}))]
    result = run(functions(), "open", who="Ada")
    assert (result.text, result.session_attributes) == ("3 open", {"last": "c-1"})
    (got,) = site.got
    # The ARN with its alias is the function's name on the wire.
    assert got.verb == "POST"
    assert got.path == f"/2015-03-31/functions/{ARN.replace(':', '%3A')}/invocations"
    assert json.loads(got.body) == {
        "messageVersion": "1.0",
        "agent": {"name": "claims", "id": "AGENT12345", "alias": "TSTALIASID", "version": "DRAFT"},
        "inputText": "Which claims are open?",
        "sessionId": "s-1",
        "actionGroup": "claims",
        "function": "open",
        "parameters": [{"name": "who", "type": "string", "value": "Ada"}],
        "sessionAttributes": {"employeeId": "E-1"},
        "promptSessionAttributes": {"language": "en"},
    }
    assert "Credential=AKIATEST/" in got.headers["authorization"]
    assert "/eu-central-1/lambda/" in got.headers["authorization"]


def test_sloppy_responses_are_understood_as_those_of_a_handler_file(site: Site) -> None:
    site.answers = [Sent(b'{"response": {"functionResponse": {"responseBody": {"TEXT": {"body":'
                         b' {"open": 3}}}}}}')]  # fmt: skip
    result = run(functions(), "open", who="Ada")
    assert result.text == '{"open": 3}'
    assert "`messageVersion` is missing" in result.notes


@pytest.mark.parametrize(
    ("payload", "text"), [(b"not JSON {", "not JSON {"), (b"", ""), (b"3", "3")]
)
def test_any_payload_is_a_result(site: Site, payload: bytes, text: str) -> None:
    site.answers = [Sent(payload)]
    assert run(functions(), "open", who="Ada").text == text


@pytest.mark.parametrize("kind", ["Unhandled", "Handled"])
def test_a_function_that_raises_is_named_without_its_message(site: Site, kind: str) -> None:
    raised = {"errorMessage": f"no {SECRET}", "errorType": "KeyError", "stackTrace": [SECRET]}
    site.answers = [Sent(json.dumps(raised).encode(), headers={"X-Amz-Function-Error": kind})]
    with pytest.raises(
        DependencyFailed, match="'claims' in eu-central-1 raised KeyError"
    ) as caught:
        run(functions(), "open", who="Ada")
    assert caught.value.resource == "claims::open"
    assert SECRET not in str(caught.value)
    assert len(site.got) == 1


@pytest.mark.parametrize("odd", [{}, [], {"errorType": f"a {SECRET}"}, "x"])
def test_an_odd_function_error_is_one_too(site: Site, odd: object) -> None:
    site.answers = [Sent(json.dumps(odd).encode(), headers={"X-Amz-Function-Error": "Unhandled"})]
    with pytest.raises(DependencyFailed, match="raised an error") as caught:
        run(functions(), "open", who="Ada")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "status", "error", "said"),
    [
        ("AccessDeniedException", 403, AccessDenied, "access to the Lambda function 'claims'"),
        ("UnrecognizedClientException", 403, AccessDenied, "refused the credentials"),
        ("ResourceNotFoundException", 404, DependencyFailed, "no such thing as the Lambda funct"),
        ("RequestTooLargeException", 413, DependencyFailed, "failed (RequestTooLargeException"),
        ("InvalidParameterValueException", 400, DependencyFailed, "failed (InvalidParameterVal"),
    ],
)
def test_what_lambda_refuses(
    site: Site, code: str, status: int, error: type[Exception], said: str
) -> None:
    site.answers = [problem(code, status)]
    with pytest.raises(error) as caught:
        run(functions(), "open", who="Ada")
    assert type(caught.value) is error
    assert said in str(caught.value) and "r-1" in str(caught.value)
    assert (SECRET in str(caught.value)) == (code == "AccessDeniedException")
    permission = f"— allow lambda:InvokeFunction on {ARN}"
    assert (permission in str(caught.value)) == (code == "AccessDeniedException")
    assert len(site.got) == 1


def test_there_are_no_credentials(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AccessDenied, match=r"no AWS credentials .*'claims'.*AWS_PROFILE"):
        run(functions(), "open", who="Ada")
    assert site.got == []


def test_one_client_serves_all_calls_of_a_region(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    client = boto3.Session.client
    monkeypatch.setattr(
        boto3.Session, "client", lambda *given, **more: made.append(given) or client(*given, **more)
    )
    site.answers = [Sent(answered("x"))]
    threads = [threading.Thread(target=run, args=(functions(), "open"), kwargs={"who": "a"})
               for _ in range(4)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(functions(LambdaArn(ARN.replace("claims", "other"))), "open", who="b")
    assert (len(made), len(site.got)) == (1, 5)


def test_any_event_can_be_given(site: Site) -> None:
    site.answers = [Sent(b'{"promptType": "ORCHESTRATION"}')]
    assert LambdaArn(ARN).invoke({"a": ["\u00e4"]}) == {"promptType": "ORCHESTRATION"}
    assert json.loads(site.got[0].body) == {"a": ["\u00e4"]}


def test_an_event_that_lambda_would_not_take_is_not_sent(site: Site) -> None:
    large = context(input_text="x" * 7_000_000)
    with pytest.raises(DependencyFailed, match=r"has 7\d{6} bytes; Lambda takes at most 6291456"):
        run(functions(), "open", large, who="Ada")
    assert site.got == []


def test_a_reply_that_lambda_would_not_give_is_not_read(site: Site) -> None:
    site.answers = [Sent(b'"' + b"x" * 6_400_000 + b'"')]
    read = run(functions(), "open", who="Ada").text
    assert read.startswith("The function ran: do not repeat it. Its answer has more than 6291456 b")
    with pytest.raises(DependencyFailed, match="returned more than 6291456 bytes"):
        LambdaArn(ARN).invoke({})


def test_the_read_timeout_is_the_actions_time(site: Site) -> None:
    with pytest.raises(ActionOutcomeUnknown, match=r"may have taken effect.*not asked again"):
        done = threading.Event()
        site.answers = [Sent(wait=done.wait)]
        try:
            run(functions(), "open", context(seconds=0.2), who="Ada")
        finally:
            done.set()
    until(lambda: site.got)  # the server may be later than its client
    assert len(site.got) == 1


@pytest.mark.parametrize(
    "arn",
    [
        "claims",
        "arn:aws:s3:::bucket",
        "arn:aws:lambda:eu-central-1:123:function:claims",
        "arn:aws:lambda:evil.example/:123456789012:function:claims",
        "arn:aws:lambda:eu-central-1:123456789012:function:claims:a b",
        None,
    ],
)
def test_what_is_no_arn_is_refused(arn: Any) -> None:
    with pytest.raises(DefinitionError, match="not the ARN of a Lambda function; one looks like"):
        LambdaArn(arn)


def test_arns_of_other_partitions_and_versions() -> None:
    for arn in (
        "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:f",
        "arn:aws-cn:lambda:cn-north-1:123456789012:function:f_1-2:$LATEST",
        "arn:aws:lambda:us-east-1:123456789012:function:f:7",
    ):
        assert LambdaArn(arn).arn == arn


def stubbed() -> tuple[Any, Stubber]:
    client = boto3.client("lambda", region_name="eu-central-1")
    return client, Stubber(client)


def body_of(content: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(content), len(content))


def test_a_custom_client_is_used() -> None:
    client, stub = stubbed()
    stub.add_response(
        "invoke",
        {"StatusCode": 200, "Payload": body_of(answered("stubbed"))},
        {"FunctionName": ARN, "Payload": stub_any()},
    )
    with stub:
        assert run(functions(LambdaArn(ARN, client=client)), "open", who="Ada").text == "stubbed"
    stub.assert_no_pending_responses()


def stub_any() -> Any:
    from botocore.stub import ANY

    return ANY


def test_a_throttled_stub_is_a_throttling_error() -> None:
    client, stub = stubbed()
    stub.add_client_error("invoke", "TooManyRequestsException", "Rate exceeded", 429)
    with stub, pytest.raises(ThrottlingError):
        run(functions(LambdaArn(ARN, client=client)), "open", who="Ada")


@mock_aws(config={"lambda": {"use_docker": False}})
def test_a_function_in_moto() -> None:
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("h.py", "def f(event, context): return event")
    role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]
    client = boto3.client("lambda", region_name="eu-central-1")
    made = client.create_function(
        FunctionName="claims",
        Runtime="python3.12",
        Role=role["Arn"],
        Handler="h.f",
        Code={"ZipFile": packed.getvalue()},
    )
    # Without Docker moto runs no code; its answer to an invocation is the event.
    text = run(functions(LambdaArn(made["FunctionArn"])), "open", who="Ada").text
    assert json.loads(text)["parameters"] == [{"name": "who", "type": "string", "value": "Ada"}]


def test_an_api_operation(site: Site) -> None:
    inner = {"httpStatusCode": 404, "responseBody": {"application/json": {"body": "none"}}}
    site.answers = [Sent(json.dumps({"messageVersion": "1.0", "response": inner}).encode())]
    group = ActionGroup("claims", api_schema=API, executor=LambdaArn(ARN))
    result = run(group, "list")
    assert (result.text, result.http_status) == ("none", 404)
    event = json.loads(site.got[0].body)
    assert (event["apiPath"], event["httpMethod"]) == ("/claims", "GET")
