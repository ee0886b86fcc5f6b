"""Turns of every kind, for the tests of their traces."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whole_agents import NATIVE, XML, Calls, Family, answer

from orchestrator import ActionGroup, Limits, ReturnControl, action
from orchestrator.errors import ThrottlingError
from orchestrator.models.base import ModelReply, Usage
from orchestrator.testing import FakeKnowledgeBase

DAYS = ("vacations::get_days", {"employee": "E-1"})
BOOK = ("vacations::book", {"employee": "E-1", "days": 3})
API = {
    "openapi": "3.0.0",
    "info": {"title": "claims", "version": "1"},
    "paths": {
        "/claims/{id}": {
            "post": {
                "operationId": "remind",
                "description": "Sends a reminder.",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"text": {"type": "string"}},
                                "required": ["text"],
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "done"}},
            }
        }
    },
}


class Echo:
    """An executor that says what it was called with."""

    def call(self, call: Any, context: Any) -> Any:
        from orchestrator.actions import ActionResult

        return ActionResult(f"{call.operation.name} {call.arguments}")


@action
def breaks() -> str:
    """Always fails."""
    raise RuntimeError("a message with a payload")


@action(require_confirmation=True)
def delete_account(account: str) -> str:
    """Deletes an account."""
    return f"{account} is deleted"


def stopped(reason: str, text: str = "") -> ModelReply:
    content = [{"text": text}] if text else []
    return ModelReply(content, reason, Usage(3, 4, calls=1))


@dataclass
class Turn:
    """One turn: what the model says, and how the agent is made.

    Attributes:
        name: Names it.
        script: From a dialect's family to the model's replies.
        options: More arguments of `Agent`.
        results: What the caller answers a return of control with.
        error: Name of the error that ends the turn.
    """

    name: str
    script: Callable[[Family], list[Any]]
    options: Callable[[], dict[str, Any]] = dict
    results: Any = None
    error: str = ""
    families: tuple[Family, ...] = field(default=(XML, NATIVE))

    def agent_options(self) -> dict[str, Any]:
        made = {"groups": Calls().groups(ask_user=True)}
        return made | self.options()


def group(*actions: Any, **options: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"groups": [ActionGroup("accounts", list(actions), **options)]}


def knowledge() -> dict[str, Any]:
    passages = ["Vacation must be taken before April.", "Ask HR."]
    return {"knowledge_bases": [FakeKnowledgeBase("HANDBOOK01", passages, "The handbook.")]}


def stages(*names: str) -> Callable[[], dict[str, Any]]:
    return lambda: {"prompts": {name: {"promptState": "ENABLED"} for name in names}}


SEARCH = ("GET::x_amz_knowledgebase_HANDBOOK01::Search", {"searchQuery": "when?"})
REMIND = ("POST::claims::/claims/{id}", {"id": "claim-1", "text": "Send the form."})

TURNS = [
    Turn("answer", lambda f: [answer("Hello.")]),
    Turn("no tags at all", lambda f: ["Hello."]),
    Turn("tool loop", lambda f: [f.calls(DAYS), f.calls(BOOK), answer("Booked.")]),
    Turn("parallel calls", lambda f: [f.calls(DAYS, BOOK), answer("Done.")]),
    Turn(
        "malformed call",
        lambda f: ["<function_calls><invoke></invoke></function_calls>", answer("Sorry.")],
    ),
    Turn("no answer", lambda f: ["<thinking>Hm.</thinking>", answer("Here it is.")]),
    Turn("unknown action", lambda f: [f.calls(("vacations::fly", {})), answer("No.")]),
    Turn("missing argument", lambda f: [f.calls(("vacations::get_days", {})), answer("Who?")]),
    Turn("one good call, one bad", lambda f: [f.calls(DAYS, ("a::b", {})), answer("Half.")]),
    Turn("ask the user", lambda f: [f.asks("Whose days?")]),
    Turn("call and ask", lambda f: [f.calls(DAYS, ("user::askuser", {"question": "Book?"}))]),
    Turn(
        "refused by pre-processing",
        lambda f: ["<thinking>bad</thinking><category>A</category>"],
        stages("PRE_PROCESSING"),
    ),
    Turn(
        "pre- and post-processing",
        lambda f: [
            "<thinking>fine</thinking><category>D</category>",
            f.calls(DAYS),
            answer("12"),
            "<final_response>You have 12 days left.</final_response>",
        ],
        stages("PRE_PROCESSING", "POST_PROCESSING"),
    ),
    Turn("knowledge base", lambda f: [f.calls(SEARCH), answer("Before April.")], knowledge),
    Turn("return of control", lambda f: [f.calls(DAYS), answer("12.")],
         lambda: {"groups": [ActionGroup("vacations", functions=[
             {"name": "get_days", "description": "d", "parameters": {
                 "employee": {"type": "string", "description": "e", "required": True}}}],
             executor=ReturnControl())]},
         results={"get_days": "12 days"}),
    Turn("return of control of an API", lambda f: [f.calls(REMIND), answer("Sent.")],
         lambda: {"groups": [ActionGroup("claims", api_schema=API, executor=ReturnControl())]},
         results={"/claims/{id}": {"sent": True}}, families=(XML,)),
    Turn("confirmed", lambda f: [f.calls(("accounts::delete_account", {"account": "a"})),
                                 answer("Gone.")],
         group(delete_account), results={"delete_account": True}),
    Turn("denied", lambda f: [f.calls(("accounts::delete_account", {"account": "a"})),
                              answer("Kept.")],
         group(delete_account), results={"delete_account": False}),
    Turn("API", lambda f: [f.calls(REMIND), answer("Sent.")],
         lambda: {"groups": [ActionGroup("claims", api_schema=API, executor=Echo())]},
         families=(XML,)),
    Turn("failing action", lambda f: [f.calls(("accounts::breaks", {}))], group(breaks),
         error="DependencyFailed"),
    Turn("failing model", lambda f: [f.calls(DAYS), ThrottlingError("slow down", resource="m")],
         error="ThrottlingError"),
    Turn("model fails at once", lambda f: [ThrottlingError("slow down", resource="m")],
         error="ThrottlingError"),
    Turn("too many misreadings", lambda f: ["<thinking>?</thinking>"] * 9,
         lambda: {"limits": Limits(reprompts=2)}, error="ModelOutputError"),
    Turn("too many steps", lambda f: [f.calls(DAYS) for _ in range(9)],
         lambda: {"limits": Limits(iterations=3)}, error="LimitExceeded"),
    Turn("too many model calls", lambda f: [f.calls(DAYS) for _ in range(9)],
         lambda: {"limits": Limits(model_calls=2)}, error="LimitExceeded"),
    Turn("too many actions", lambda f: [f.calls(DAYS, BOOK) for _ in range(9)],
         lambda: {"limits": Limits(actions=3)}, error="LimitExceeded"),
    Turn("guardrail", lambda f: [stopped("guardrail_intervened", "Blocked.")]),
    Turn("content filter", lambda f: [stopped("content_filtered")]),
    Turn("cut answer", lambda f: [stopped("max_tokens", "<answer>The first half of")]),
    Turn("cut call", lambda f: [stopped("max_tokens", "<function_calls><invoke><tool_name>vaca")],
         error="ModelOutputError"),
    Turn("cut thinking", lambda f: [stopped("max_tokens", "<thinking>It seems to me that")],
         error="ModelOutputError"),
    Turn("context is full", lambda f: [stopped("model_context_window_exceeded")],
         error="ModelOutputError"),
    Turn("malformed tool use", lambda f: [stopped("malformed_tool_use"), answer("Again.")]),
    Turn("malformed output", lambda f: [stopped("malformed_model_output", "<x"), answer("So.")]),
    Turn("reasoning", lambda f: [[
        {"reasoningContent": {"reasoningText": {"text": "I think.", "signature": "c2ln"}}},
        {"text": answer("So.")}]]),
    Turn("odd characters", lambda f: [answer('"\\ \u2028 \x00 \ud800 </answer> $question$')]),
]  # fmt: skip
EACH_TURN = [
    (turn, family)
    for turn, family in itertools.product(TURNS, (XML, NATIVE))
    if family in turn.families
]
IDS = [f"{turn.name}-{family.name}" for turn, family in EACH_TURN]
