"""Attack 20: a permitted tool is called with arguments that a script forbids, written otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import Flow
from orchestrator.flows.ppe.permissions import permissions_of
from orchestrator.testing import ScriptedModel

MODEL = "anthropic.claude-3-5-sonnet-20240620-v1:0"


def action(patterns: list[str], value: Any) -> str:
    rules = {"call": [{"use": {"parameters": {"it": patterns}}}]}
    return permissions_of(rules).action("use", {"it": value})


FORBIDDEN = [
    ("https://evil.com/*", "https://evil.com/x"),
    ("https://evil.com/*", "HTTPS://Evil.Com/x"),
    ("https://evil.com/*", " https://evil.com/x"),
    ("https://evil.com/*", "ht\ntps://evil.com/x"),
    ("https://evil.com/*", "https://evil.com:443/x"),
    ("https://evil.com/*", "https://evil.com./x"),
    ("https://evil.com/*", "https://me@evil.com/x"),
    ("https://evil.com/*", "https:\\\\evil.com\\x"),
    ("https://evil.com/*", "https://evil.com//x"),
    ("https://a.com/admin/*", "https://a.com/x/../admin/y"),
    ("https://a.com/admin/*", "https://a.com/%61dmin/y"),
    ("https://a.com/admin/*", "https://a.com//admin/y"),
    ("/etc/*", "/etc/passwd"),
    ("/etc/*", "//etc/passwd"),
    ("/etc/*", "///etc//passwd"),
    ("/etc/*", "/tmp/../etc/passwd"),
    ("/etc/*", "/tmp/%2e%2e/etc/passwd"),
    ("/etc/*", "\\etc\\passwd"),
    ("/etc/*", "file:///etc/passwd"),
    ("/etc/*", " /etc/passwd"),
    ("/etc/*", ["/etc/passwd"]),
    ("/etc/*", ["/a", {"b": [1, "/etc/passwd"]}]),
    ("/etc/*", {"/etc/passwd": "x"}),
    ("secret*", "secret.txt"),
    ("secret*", "./secret.txt"),
    ("secret*", "a/../secret.txt"),
    ("./secret*", "secret.txt"),
    ("*//*", "a//b"),
    ("5", 5),
]


@pytest.mark.parametrize(("pattern", "value"), FORBIDDEN)
def test_no_writing_of_a_forbidden_argument_gets_through(pattern: str, value: Any) -> None:
    assert action([f"!{pattern}"], value) == "deny"
    assert action(["*", f"!{pattern}"], value) == "deny"
    assert action([f"!{pattern}", "*"], value) == "deny"


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("https://api.example.com/*", "https://api.example.com.evil.com/x"),
        ("https://api.example.com/*", "https://api.example.com@evil.com/x"),
        ("https://api.example.com/*", "https://api.example.com\\@evil.com/x"),
        ("https://api.example.com/*", "http://api.example.com/x"),
        ("https://a.com/safe/*", "https://a.com/safe/../admin"),
        ("https://a.com/safe/*", "https://a.com/safe/%2e%2e/admin"),
        ("/safe/*", "/safe/../etc/passwd"),
        ("/safe/*", "/safe/..\\..\\etc"),
        ("/safe/*", ["/safe/a", "/etc/passwd"]),
        ("/safe/*", {"/etc/passwd": "/safe/a"}),
        ("/safe/*", ""),
        ("/safe/*", []),
        ("/safe/*", None),
    ],
)
def test_what_only_looks_allowed_is_not(pattern: str, value: Any) -> None:
    assert action([pattern], value) == "deny"


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("https://api.example.com/*", "https://api.example.com/x"),
        ("https://api.example.com/*", "https://API.example.com/x?y=z#a"),
        ("https://api.example.com/*", "https://api.example.com/"),
        ("https://*.example.com/*", "https://a.example.com/b/c"),
        ("https://api.example.com", "https://api.example.com"),
        ("/safe/*", "/safe/a"),
        ("/safe/*", "//safe/./a"),
        ("/safe/*", ["/safe/a", "/safe/b"]),
        ("/safe/100%25", "/safe/100%25"),
        ("C:\\safe\\*", "C:\\safe\\a"),
        ("see *", "see https://a.com//b"),
        ("Oslo", "Oslo"),
        ("5", 5),
        ("", ""),
    ],
)
def test_what_is_allowed_goes_through(pattern: str, value: Any) -> None:
    assert action([pattern], value) == "allow"


@pytest.mark.parametrize(
    ("patterns", "url", "called"),
    [
        ('["*", "!https://evil.com/*"]', "https://evil.com/x", False),
        ('["*", "!https://evil.com/*"]', "https://good.com/x", True),
        ('["https://api.example.com/*"]', "https://api.example.com/x", True),
        ('["*", "!/etc/*"]', "//etc/passwd", False),
        ('["*", "!secret*"]', "./secret.txt", False),
    ],
)
def test_the_model_calls_with_permitted_arguments_only(
    patterns: str, url: str, called: bool
) -> None:
    urls: list[str] = []

    def fetch(url: str) -> str:
        urls.append(url)
        return "ok"

    flow = Flow.from_text(
        "---\ntools: [fetch]\n"
        f"permissions: {{ai: {{call: [fetch: {{parameters: {{url: {patterns}}}}}]}}}}\n"
        "---\nuser: q\n",
        "ppe",
    )
    call = {"toolUse": {"toolUseId": "1", "name": "fetch", "input": {"url": url}}}
    flow.run(model=ScriptedModel([[call], "done"], MODEL), tools={"fetch": fetch})
    assert urls == ([url] if called else [])
