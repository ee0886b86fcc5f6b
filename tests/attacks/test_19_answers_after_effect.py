"""Attack 19: an action took effect, and its answer is made to look as if it had not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from loopback import Sent, Site
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, DependencyFailed, Limits, action
from orchestrator.actions import HttpExecutor
from orchestrator.errors import ActionOutcomeUnknown

DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "paths": {
        "/claims": {"post": {"operationId": "open", "description": "Opens.", "responses": {}}}
    },
}
OPEN = ("POST::claims::open", {})
BODY = '{"opened": "C-7", "by": "xn--Zo\u00eb \\ud83d +2AA-"}'
NO_CHARSETS = (
    "base64 bz2 hex idna mbcs oem palmos punycode quopri raw_unicode_escape rot13 undefined "
    "unicode_escape utf-7 uu zip zlib x-unknown __init__ aliases .. utf-8;charset= "
).split(" ")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().running() as site:
        yield site


def results_in(request: Any) -> list[str]:
    blocks = [one["toolResult"] for one in request.messages[-1]["content"]]
    return [block["content"][0]["text"] for block in blocks]


def turn(site: Site, *, limits: Limits | None = None) -> Any:
    """What the model reads of a call that changes something, and the turn's trace."""
    executor = HttpExecutor(site.url(), allow_private=["localhost"])
    group = ActionGroup("claims", api_schema=DOCUMENT, executor=executor)
    model = NATIVE.model([NATIVE.calls(OPEN), answer("Done.")])
    reply = agent(model, [group], limits=limits).invoke("Do it.", "s-1")
    assert len(site.got) == 1
    (read,) = results_in(model.requests[1])
    return read, json.dumps(reply.trace, default=str)


@pytest.mark.parametrize("charset", [*NO_CHARSETS, "u" * 50_000, "\xff", "%s", '"utf-8'])
def test_a_charset_that_is_none_means_utf_8(site: Site, charset: str) -> None:
    site.answers = [Sent(BODY.encode(), 200, {"Content-Type": f"text/plain; charset={charset}"})]
    assert turn(site)[0] == BODY


@pytest.mark.parametrize(
    ("charset", "sent"),
    [("ISO_8859-1", b"Zo\xeb"), ("cp1251", b"\xc7\xee"), ("Shift_JIS", b"\x83]")],
)
def test_charsets_that_texts_are_in_are_read(site: Site, charset: str, sent: bytes) -> None:
    site.answers = [Sent(sent, 200, {"Content-Type": f"text/plain; charset={charset}"})]
    assert turn(site)[0] == sent.decode(charset)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (Sent(b'{"half', length=100), "broke off"),
        (Sent(b"zz\r\nhalf", 201, {"Transfer-Encoding": "chunked"}), "broke off"),
        (Sent(b"x" * 3000), "more than 2000 bytes"),
        (Sent(b"\x1f\x8bno", headers={"Content-Encoding": "gzip"}), "is compressed"),
        (Sent(b"\0\1\2", headers={"Content-Type": "text/plain"}), "3 bytes, and is not shown"),
        (Sent(b"", 303, {"Location": "/claims/7"}), "is at another place"),
    ],
)
def test_an_answer_that_cannot_be_read_is_of_an_action_that_was_done(
    site: Site, sent: Sent, said: str
) -> None:
    site.answers = [sent]
    read, trace = turn(site, limits=Limits(result_bytes=2000))
    assert read.startswith(f"The request was carried out (HTTP {sent.status} ") and said in read
    assert "do not repeat it" in read
    assert f"The request was carried out (HTTP {sent.status}" in trace


@pytest.mark.parametrize("status", [301, 302, 502, 504])
def test_a_status_that_does_not_say_what_was_done_leaves_that_unknown(
    site: Site, status: int
) -> None:
    site.answers = [Sent(b"", status, {"Location": "/claims/7"})]
    with pytest.raises(ActionOutcomeUnknown, match=rf"HTTP {status} .*may have taken effect"):
        turn(site)
    assert len(site.got) == 1


@pytest.mark.parametrize("status", [307, 308, 500, 503])
def test_a_status_that_says_that_nothing_was_done_is_a_failure(site: Site, status: int) -> None:
    site.answers = [Sent(b"", status, {"Location": "/claims/7"})]
    with pytest.raises(DependencyFailed) as caught:
        turn(site)
    assert type(caught.value) is DependencyFailed


def test_a_result_that_is_too_large_or_no_json_does_not_undo_the_action() -> None:
    done: list[str] = []

    @action
    def pay(to: str) -> object:
        """Pays."""
        done.append(to)
        return "x" * 3000 if to == "Ada" else object()

    @action(idempotent=True)
    def find(name: str) -> str:
        """Finds."""
        return "x" * 3000

    calls = [
        ("bank::pay", {"to": "Ada"}), ("bank::pay", {"to": "Bo"}), ("bank::find", {"name": "C"}),
    ]  # fmt: skip
    model = NATIVE.model([NATIVE.calls(*calls), answer("Paid.")])
    groups = [ActionGroup("bank", [pay, find])]
    asked = agent(model, groups, limits=Limits(result_bytes=2000))
    assert asked.invoke("Pay.", "s-1").text == "Paid."
    large, opaque, found = results_in(model.requests[1])
    assert done == ["Ada", "Bo"]
    assert large.startswith("The action was carried out: do not repeat it if it changes something.")
    assert opaque.startswith("The action was carried out: do not repeat it.")
    assert found.startswith("The result has 3000 bytes and is not shown")
