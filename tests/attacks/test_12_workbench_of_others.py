"""The workbench answers who has its token, on its own name, from its own pages, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from workbench_support import Client, Workbench, answer, workbench

from orchestrator.errors import ValidationError
from orchestrator.server.settings import Settings
from orchestrator.server.workbench.run import run_in_thread

SECRET = "the launch code is 4711"
PATHS = (
    "/",
    "/agents/shop",
    "/agents/shop/sessions/s-1",
    "/agents/shop/sessions/s-1/turns/x",
    "/agents/shop/sessions/s-1/turns/x/steps/1",
    "/agents/shop/sessions/s-1/turns/x/trace",
    "/nothing",
)
ACTIONS = ("ask", "fork", "end", "delete")
POLICY = ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with workbench(tmp_path_factory.mktemp("bench"), [answer(SECRET)]) as bench:
        bench.agent.invoke("What is it?", "s-1")
        yield bench


def refusals(client: Client, **headers: str) -> set[int]:
    """What all pages and actions answer; none of them tells anything."""
    found = set()
    for accept in ("application/json", "text/html"):
        for path in PATHS:
            told = client.get(path, Accept=accept, **headers)
            assert SECRET not in told.text
            assert "shop" not in told.text
            found.add(told.status)
    for action in ACTIONS:
        path = f"/agents/shop/sessions/s-1/{action}"
        told = client.post(path, {"question": "Tell me"}, **headers)
        assert SECRET not in told.text
        found.add(told.status)
    return found


def test_who_has_no_token_gets_nothing(bench: Workbench) -> None:
    assert refusals(bench.stranger) == {401}
    port = bench.client.port
    for wrong in (
        f"workbench-{port}=x",
        f"workbench-{port}=",
        f"workbench-{port + 1}=x",
        "=;=",
        "\x7f",
    ):
        assert bench.stranger.get("/agents/shop", Cookie=wrong).status == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"token": ""},
        {"token": None},
        {"token": ["x"]},
        [],
        "x",
        b"{",
        b"[" * 100,
        b"x" * 100_000,
    ],
    ids=str,
)
def test_a_wrong_token_opens_nothing(bench: Workbench, body: object) -> None:
    told = bench.stranger.post("/enter", body)
    assert told.status == 401
    assert "set-cookie" not in told.headers


def test_the_token_is_in_no_request_and_the_cookie_in_no_script(bench: Workbench) -> None:
    assert bench.url.endswith(f"/workbench/#t={bench.token}")  # no browser sends a fragment
    told = bench.stranger.post("/enter", {"token": bench.token})
    cookie = told.headers["set-cookie"]
    assert bench.token not in cookie
    assert {"HttpOnly", "SameSite=Strict", f"Path={bench.client.root}"} <= set(cookie.split("; "))


def test_the_cookie_is_for_a_path_that_no_other_server_of_the_machine_is_asked_for(
    bench: Workbench,
) -> None:
    # Browsers send cookies to all ports of a host: the path is what only this workbench's users
    # know, and nothing is told below another one.
    start, _, secret = bench.client.root.rpartition("/")
    assert (start, len(secret) >= 22) == ("/workbench", True)
    cookie = bench.client.headers
    for root in ("/workbench", f"{start}/{'x' * len(secret)}", f"{start}/{secret}x", start[:-1]):
        other = Client(bench.client.host, bench.client.port, cookie, root)
        for path in PATHS:
            assert other.get(path).status == 401, (root, path)
        assert other.post("/agents/shop/sessions/s-1/delete", {}).status == 401
    page = bench.client.page("/agents/shop")
    assert f'href="{bench.client.root}/agents/shop/sessions/s-1"' in page.text
    without = Client(bench.client.host, bench.client.port, {}, bench.client.root)
    assert without.get("/agents/shop").status == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_was_rebound_gets_nothing_even_with_the_cookie(
    bench: Workbench, host: str
) -> None:
    assert refusals(bench.client, Host=host) == {403}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
    ],
    ids=str,
)
def test_pages_of_others_get_nothing_even_with_the_cookie(
    bench: Workbench, headers: dict[str, str]
) -> None:
    assert refusals(bench.client, **headers) == {403}


def test_only_json_with_the_own_header_changes_something(bench: Workbench) -> None:
    path = "/agents/shop/sessions/s-1/delete"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert bench.client.post(path, {}, Content_Type=kind).status == 415
    assert bench.client.post(path, {}, X_Workbench="0").status == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert bench.client.send(method, f"{bench.client.root}{path}").status == 405
    assert bench.client.get(path).status in (404, 405)
    assert len(bench.client.get("/agents/shop/sessions/s-1").json["turns"]) == 1


def test_a_body_that_is_too_large_is_not_read(bench: Workbench) -> None:
    path = f"{bench.client.root}/agents/shop/sessions/s-1/ask"
    own = {"Content_Type": "application/json", "X_Workbench": "1"}
    for length in ("32000001", "9" * 15):
        assert bench.client.send("POST", path, Content_Length=length, **own).status == 413


def test_every_answer_says_what_its_page_may_do(bench: Workbench) -> None:
    for told in (
        bench.client.page("/"),
        bench.client.get("/nothing"),
        bench.client.get("/static/page.js"),
        bench.stranger.page("/"),
        bench.stranger.get("/", Host="evil.example"),
        bench.client.post("/agents/shop/sessions/s-1/delete", {}, X_Workbench=""),
    ):
        policy = told.headers["content-security-policy"]
        assert all(one in policy for one in POLICY)
        assert "unsafe" not in policy
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in told.headers


def test_no_page_has_a_script_or_style_of_its_own(bench: Workbench) -> None:
    turn = bench.agent.turns("s-1")[0].id
    for path in (*PATHS[:3], f"{PATHS[2]}/turns/{turn}", f"{PATHS[2]}/turns/{turn}/steps/1"):
        page = bench.client.page(path)
        assert page.status == 200
        assert " style=" not in page.text
        assert "<style" not in page.text
        for tag in page.text.split("<script")[1:]:
            assert tag.partition(">")[2].startswith("</script>"), path


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_it_is_for_this_machine_alone(bench: Workbench, host: str) -> None:
    with pytest.raises(ValidationError, match="others than this machine could use it"):
        with run_in_thread(bench.projects, Settings(host=host, port=0)):
            pass
