"""Signatures of AWS's clients are verified as AWS does; requests are signed by botocore itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from server_requests import (
    API_KEY,
    ID,
    OTHER_ID,
    SECRET,
    TOKEN,
    client,
    now,
    presented,
    send,
    send_signed,
    signed,
    write_keys,
)

from orchestrator.server.access.authenticator import Authenticator
from orchestrator.server.access.guards import RawRequest, Refusal
from orchestrator.server.access.keys import Keys
from orchestrator.server.operations import Caller
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(write_keys(tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def callers(keys: Keys) -> Authenticator:
    return Authenticator(keys)


def caller_of(callers: Authenticator, request: RawRequest, body: bytes = b"{}") -> Caller:
    found = callers.authenticate(request)
    return found if isinstance(found, Caller) else found([body])


def refused(callers: Authenticator, request: RawRequest, body: bytes = b"{}") -> tuple[str, int]:
    with pytest.raises(Refusal) as error:
        caller_of(callers, request, body)
    assert SECRET not in str(error.value)
    return error.value.name, error.value.status


def without(request: RawRequest, *names: str) -> RawRequest:
    left = [pair for pair in request.headers if pair[0].decode() not in names]
    return RawRequest(request.method, request.path, request.query, left)


def with_headers(request: RawRequest, **headers: str) -> RawRequest:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    left = without(request, *told).headers
    added = [(name.encode(), value.encode()) for name, value in told.items()]
    return RawRequest(request.method, request.path, request.query, [*left, *added])


def test_the_tenant_is_that_of_the_key(callers: Authenticator) -> None:
    assert caller_of(callers, presented(signed())) == Caller("team-a", ("s3://claims/*",))


def test_a_key_without_allow_may_use_nothing_of_aws(callers: Authenticator) -> None:
    other = caller_of(callers, presented(signed(who=(OTHER_ID, "the-secret-of-team-b-0002"))))
    assert other.tenant == "team-b"
    assert not other.may_use("s3://claims/1.txt")


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-gov-west-1"])
def test_every_region_is_this_one(callers: Authenticator, region: str) -> None:
    assert caller_of(callers, presented(signed(region=region))).tenant == "team-a"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/agents/ABCDEFGHIJ/agentAliases/TSTALIASID/sessions/a:b.c_d-1/text",
        "/tags/arn%3Aaws%3Abedrock%3Aus-east-1%3A000000000000%3Aagent%2FABCDEFGHIJ",
        "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse",
        "/agents//x/./y/../z/",
        "/%E2%82%AC/~a%20b",
        "/a+b/c=d&e;f@g!h$i'j(k)*",
    ],
)
def test_paths_are_signed_as_aws_signs_them(callers: Authenticator, path: str) -> None:
    request = presented(signed(url=f"http://127.0.0.1:8080{path}"))
    assert caller_of(callers, request).tenant == "team-a"


@given(
    query=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.text(st.characters(codec="utf-8"), max_size=8),
        max_size=5,
    ),
    body=st.binary(max_size=50),
)
def test_queries_and_bodies_of_any_kind(
    callers: Authenticator, query: dict[str, str], body: bytes
) -> None:
    from botocore.compat import quote

    told = "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in query.items())
    prepared = signed(url=f"http://127.0.0.1:8080/memories?{told}", body=body)
    assert caller_of(callers, presented(prepared), body).tenant == "team-a"
    assert refused(callers, presented(prepared), body + b" ")[0] == "InvalidSignatureException"


def test_header_values_may_have_spaces(callers: Authenticator) -> None:
    request = presented(signed(headers={"X-Amz-Meta": "  a   b ", "Accept": "*/*"}))
    assert caller_of(callers, request).tenant == "team-a"


def test_the_declared_hash_of_the_body_has_to_be_the_bodys(callers: Authenticator) -> None:
    for told in ("UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "0" * 64):
        request = presented(signed(headers={"X-Amz-Content-SHA256": told}))
        assert refused(callers, request)[0] == "InvalidSignatureException"


def test_another_method_path_query_or_header_is_another_request(callers: Authenticator) -> None:
    one = presented(signed(url="http://127.0.0.1:8080/agents/?a=1"))
    assert caller_of(callers, one).tenant == "team-a"
    for other in (
        RawRequest("PUT", one.path, one.query, one.headers),
        RawRequest(one.method, b"/agents/X/", one.query, one.headers),
        RawRequest(one.method, one.path, b"a=2", one.headers),
        with_headers(one, host="localhost:9"),
    ):
        assert refused(callers, other) == ("InvalidSignatureException", 403)


def test_a_wrong_secret(callers: Authenticator) -> None:
    request = presented(signed(who=(ID, "not-the-secret-of-team-a")))
    assert refused(callers, request) == ("InvalidSignatureException", 403)


def test_an_unknown_key(callers: Authenticator) -> None:
    request = presented(signed(who=("AKIDNOBODY", SECRET)))
    assert refused(callers, request) == ("UnrecognizedClientException", 403)


@pytest.mark.parametrize("token", [None, "another-token", TOKEN])
def test_a_session_token_has_to_be_the_keys(callers: Authenticator, token: str | None) -> None:
    who = ("AKIDTEAMD", "the-secret-of-team-d-0004", *([token] if token else []))
    request = presented(signed(who=who))
    if token == TOKEN:
        assert caller_of(callers, request).tenant == "team-d"
    else:
        assert refused(callers, request) == ("UnrecognizedClientException", 403)


def test_a_token_that_nobody_asked_for(callers: Authenticator) -> None:
    request = presented(signed(who=(ID, SECRET, "some-token")))
    assert refused(callers, request) == ("UnrecognizedClientException", 403)


@pytest.mark.parametrize("minutes", [-5.1, -60, 5.1, 60 * 24])
def test_a_replay_outside_of_the_window(keys: Keys, minutes: float) -> None:
    request = presented(signed())
    later = Authenticator(keys, lambda: now() - timedelta(minutes=minutes))
    with pytest.raises(Refusal, match=r"Signature expired|not yet current") as error:
        caller_of(later, request)
    assert error.value.name == "InvalidSignatureException"


@pytest.mark.parametrize("minutes", [-4.9, 0, 4.9])
def test_clocks_may_differ_by_less(keys: Keys, minutes: float) -> None:
    callers = Authenticator(keys, lambda: now() + timedelta(minutes=minutes))
    assert caller_of(callers, presented(signed())).tenant == "team-a"


def test_the_date_may_be_in_the_date_header(callers: Authenticator, keys: Keys) -> None:
    request = presented(signed(headers={"Date": "botocore writes the time here"}))
    assert "x-amz-date" not in [name.decode() for name, _ in request.headers]
    assert caller_of(callers, request).tenant == "team-a"
    later = Authenticator(keys, lambda: now() + timedelta(minutes=6))
    assert refused(later, request) == ("InvalidSignatureException", 403)


def test_another_service(callers: Authenticator) -> None:
    assert refused(callers, presented(signed(service="s3")))[0] == "InvalidSignatureException"


def test_no_credentials(callers: Authenticator) -> None:
    request = without(presented(signed()), "authorization")
    assert refused(callers, request) == ("MissingAuthenticationTokenException", 403)


@pytest.mark.parametrize(
    "header",
    [
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=AKIDTEAMA/20260101/us-east-1/bedrock/aws4_request",
        "AWS4-HMAC-SHA256 Credential=a,Credential=b,SignedHeaders=host,Signature=0",
        "AWS4-ECDSA-P256-SHA256 Credential=a",
        "Basic dXNlcjpwYXNz",
        "\xff",
    ],
)
def test_incomplete_signatures(callers: Authenticator, header: str) -> None:
    request = with_headers(presented(signed()), authorization=header)
    assert refused(callers, request) == ("IncompleteSignatureException", 400)


def test_what_has_to_be_signed(callers: Authenticator) -> None:
    request = presented(signed())
    added = with_headers(request, x_amz_bedrock_thing="unsigned")
    assert refused(callers, added)[0] == "IncompleteSignatureException"
    token = with_headers(request, x_amz_security_token="unsigned")
    assert refused(callers, token)[0] == "IncompleteSignatureException"
    for gone in ("host", "x-amz-date"):
        assert refused(callers, without(request, gone))[0] == "IncompleteSignatureException"


def test_two_authorizations(callers: Authenticator) -> None:
    one = presented(signed())
    twice = [*one.headers, *[pair for pair in one.headers if pair[0] == b"authorization"]]
    request = RawRequest(one.method, one.path, one.query, twice)
    assert refused(callers, request)[0] == "IncompleteSignatureException"


def test_signatures_in_the_query_are_not_taken(callers: Authenticator) -> None:
    request = RawRequest("GET", b"/agents/", b"X-Amz-Signature=00", [(b"host", b"a")])
    assert refused(callers, request)[0] == "IncompleteSignatureException"


@given(st.text(st.characters(max_codepoint=255), max_size=120), st.binary(max_size=40))
def test_no_header_is_more_than_refused(callers: Authenticator, text: str, date: bytes) -> None:
    for start in ("", "AWS4-HMAC-SHA256 ", "Bearer ", "AWS4-HMAC-SHA256 Credential="):
        headers = [
            (b"host", b"a"),
            (b"x-amz-date", date),
            (b"authorization", (start + text).encode("latin-1")),
        ]
        with pytest.raises(Refusal):
            caller_of(callers, RawRequest("POST", b"/%zz", b"%&=&&=%", headers))


def test_api_keys(callers: Authenticator) -> None:
    request = RawRequest(
        "POST", b"/v1/models", b"", [(b"authorization", b"Bearer " + API_KEY.encode())]
    )
    assert caller_of(callers, request).tenant == "team-c"
    wrong = RawRequest("POST", b"/", b"", [(b"authorization", b"bearer no")])
    assert refused(callers, wrong) == ("AccessDeniedException", 403)


class TestARealServer:
    """boto3's own clients against a server with keys."""

    @pytest.fixture
    def url(self, tmp_path: Path):
        world = ServerState(Settings(port=0, keys=write_keys(tmp_path)))
        with world, serve_in_thread(world) as url:
            yield url

    def test_clients_sign_every_kind_of_request(self, url: str) -> None:
        control = client(url)
        assert control.list_agents(maxResults=7).get("agentSummaries") == []
        arn = "arn:aws:bedrock:us-east-1:000000000000:agent/ABCDEFGHIJ"
        with pytest.raises(control.exceptions.ResourceNotFoundException):
            control.list_tags_for_resource(resourceArn=arn)
        runtime = client(url, "bedrock-agent-runtime")
        with pytest.raises(runtime.exceptions.ResourceNotFoundException):
            runtime.invoke_agent(
                agentId="ABCDEFGHIJ", agentAliasId="TSTALIASID", sessionId="a:b", inputText="€"
            )
        with pytest.raises(runtime.exceptions.ResourceNotFoundException):
            runtime.get_agent_memory(
                agentId="ABCDEFGHIJ",
                agentAliasId="TSTALIASID",
                memoryId="someone:else",
                memoryType="SESSION_SUMMARY",
            )

    @pytest.mark.parametrize(
        ("who", "name"),
        [
            ((ID, "not-the-secret-of-team-a"), "InvalidSignatureException"),
            (("AKIDNOBODY", SECRET), "UnrecognizedClientException"),
            ((ID, SECRET, "a-token"), "UnrecognizedClientException"),
        ],
    )
    def test_refusals_have_awss_shape(self, url: str, who: tuple[str, ...], name: str) -> None:
        with pytest.raises(ClientError) as error:
            client(url, who=who).list_agents()
        told = error.value.response
        assert told["Error"]["Code"] == name
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 403
        assert len(told["ResponseMetadata"]["RequestId"]) == 36

    def test_a_body_that_was_not_signed(self, url: str) -> None:
        prepared = signed(url=f"{url}/agents/")
        assert send_signed(prepared).status == 200
        assert send_signed(prepared, b'{"maxResults": 1}').error == "InvalidSignatureException"

    def test_bearer_tokens_of_bedrock(self, url: str) -> None:
        """As boto3 sends `AWS_BEARER_TOKEN_BEDROCK`, for which it wants TLS in front."""
        path = "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse"
        body = b'{"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}'
        good = send(url, path=path, body=body, headers={"Authorization": f"Bearer {API_KEY}"})
        assert good.error == "AccessDeniedException" and "may not be used" in good.message
        bad = send(url, path=path, body=body, headers={"Authorization": "Bearer no"})
        assert bad.status == 403 and "API Key is valid" in bad.message

    def test_chat_clients_get_a_401(self, url: str) -> None:
        good = {"Authorization": f"Bearer {API_KEY}"}
        assert send(url, "GET", "/v1/models", headers=good).status == 200
        refusal = send(url, "GET", "/v1/models", headers={"Authorization": "Bearer sk-no"})
        assert refusal.status == 401
        assert b'"error"' in refusal.body

    def test_health_needs_no_key(self, url: str) -> None:
        assert send(url, "GET", "/ping", b"").status == 200


def test_the_session_of_a_chat_must_be_signed(callers: Authenticator) -> None:
    request = presented(signed())
    added = with_headers(request, X_Session_Id="x").headers
    sent = [(name.lower(), value) for name, value in added]
    other = RawRequest(request.method, request.path, request.query, sent)
    assert refused(callers, other) == ("IncompleteSignatureException", 400)
    whole = signed(headers={"X-Session-Id": "x"})
    assert caller_of(callers, presented(whole)).tenant == "team-a"
