"""Guardrails in Converse, ConverseStream and InvokeModel."""

from __future__ import annotations

import json
from typing import Any

import pytest
from control_support import CLAUDE, Served, refused, served
from guardrail_support import create, named, shown
from inline_snapshot import snapshot

USE = {"toolUse": {"toolUseId": "a", "name": "t", "input": {}}}
TOOL = {"toolSpec": {"name": "t", "inputSchema": {"json": {"type": "object"}}}}


def say(*texts: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"text": it} if isinstance(it, str) else it for it in texts]}


def guard(text: str, **given: Any) -> dict[str, Any]:
    return {"guardContent": {"text": {"text": text, **given}}}


def converse(server: Served, made: dict[str, Any], *messages: Any, **given: Any) -> dict[str, Any]:
    config = named(made, trace="enabled") | given.pop("config", {})
    found: dict[str, Any] = shown(
        server.models.converse(
            modelId=CLAUDE, messages=list(messages), guardrailConfig=config, **given
        )
    )
    if "trace" in found:
        _name_guardrail(found["trace"]["guardrail"])
    return found


def _name_guardrail(trace: dict[str, Any]) -> None:
    for name in {"inputAssessment", "outputAssessments"} & trace.keys():
        ((id, found),) = trace[name].items()
        for one in found if isinstance(found, list) else [found]:
            assert one.pop("appliedGuardrailDetails")["guardrailId"] == id
            del one["invocationMetrics"]["usage"]
        trace[name] = {"ID": found}


def stream(server: Served, made: dict[str, Any], *messages: Any, **given: Any) -> list[Any]:
    config = named(made, trace="enabled") | given.pop("config", {})
    answer = server.models.converse_stream(
        modelId=CLAUDE, messages=list(messages), guardrailConfig=config, **given
    )
    events = [shown(it) for it in answer["stream"]]
    if "trace" in events[-1]["metadata"]:
        _name_guardrail(events[-1]["metadata"]["trace"]["guardrail"])
    return events


def texts(events: list[Any]) -> list[str]:
    deltas = [it["contentBlockDelta"]["delta"] for it in events if "contentBlockDelta" in it]
    return [it["text"] for it in deltas if "text" in it]


def stop_reason(events: list[Any]) -> str:
    (reason,) = [it["messageStop"]["stopReason"] for it in events if "messageStop" in it]
    return str(reason)


def test_a_blocked_input_reaches_no_model(server: Served) -> None:
    made = create(server)
    found = converse(server, made, say("Which stock?"))
    assert found == snapshot(
        {
            "output": {
                "message": {"role": "assistant", "content": [{"text": "I cannot talk about this."}]}
            },
            "stopReason": "guardrail_intervened",
            "usage": {
                "inputTokens": 0,
                "outputTokens": 0,
                "totalTokens": 0,
                "cacheReadInputTokens": 0,
                "cacheWriteInputTokens": 0,
            },
            "metrics": {"latencyMs": 0},
            "trace": {
                "guardrail": {
                    "inputAssessment": {
                        "ID": {
                            "topicPolicy": {
                                "topics": [
                                    {
                                        "name": "Investment advice",
                                        "type": "DENY",
                                        "action": "BLOCKED",
                                        "detected": True,
                                    }
                                ]
                            },
                            "invocationMetrics": {
                                "guardrailProcessingLatency": 0,
                                "guardrailCoverage": {
                                    "textCharacters": {"guarded": 12, "total": 12}
                                },
                            },
                        }
                    },
                    "actionReason": "Guardrail blocked.",
                }
            },
        }
    )
    events = stream(server, made, say("Which stock?"))
    assert events == snapshot(
        [
            {"messageStart": {"role": "assistant"}},
            {
                "contentBlockDelta": {
                    "delta": {"text": "I cannot talk about this."},
                    "contentBlockIndex": 0,
                }
            },
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "guardrail_intervened"}},
            {
                "metadata": {
                    "usage": {
                        "inputTokens": 0,
                        "outputTokens": 0,
                        "totalTokens": 0,
                        "cacheReadInputTokens": 0,
                        "cacheWriteInputTokens": 0,
                    },
                    "metrics": {"latencyMs": 0},
                    "trace": {
                        "guardrail": {
                            "inputAssessment": {
                                "ID": {
                                    "topicPolicy": {
                                        "topics": [
                                            {
                                                "name": "Investment advice",
                                                "type": "DENY",
                                                "action": "BLOCKED",
                                                "detected": True,
                                            }
                                        ]
                                    },
                                    "invocationMetrics": {
                                        "guardrailProcessingLatency": 0,
                                        "guardrailCoverage": {
                                            "textCharacters": {"guarded": 12, "total": 12}
                                        },
                                    },
                                }
                            },
                            "actionReason": "Guardrail blocked.",
                        }
                    },
                }
            },
        ]
    )
    assert events[-1]["metadata"]["trace"] == found["trace"]
    assert server.model.requests == []


def test_a_masked_input_is_asked_with_its_masks(server: Served) -> None:
    made = create(server)
    found = converse(server, made, say("I am ana@example.com.", "BK-1042"))
    assert found["output"]["message"]["content"] == [{"text": "I am {EMAIL}.\n{booking}"}]
    assert found["stopReason"] == "end_turn"
    assert found["trace"] == snapshot(
        {
            "guardrail": {
                "inputAssessment": {
                    "ID": {
                        "sensitiveInformationPolicy": {
                            "piiEntities": [
                                {
                                    "match": "ana@example.com",
                                    "type": "EMAIL",
                                    "action": "ANONYMIZED",
                                    "detected": True,
                                }
                            ],
                            "regexes": [
                                {
                                    "name": "booking",
                                    "match": "BK-1042",
                                    "regex": "\\bBK-\\d{4}\\b",
                                    "action": "ANONYMIZED",
                                    "detected": True,
                                }
                            ],
                        },
                        "invocationMetrics": {
                            "guardrailProcessingLatency": 0,
                            "guardrailCoverage": {"textCharacters": {"guarded": 28, "total": 28}},
                        },
                    }
                },
                "outputAssessments": {
                    "ID": [
                        {
                            "invocationMetrics": {
                                "guardrailProcessingLatency": 0,
                                "guardrailCoverage": {
                                    "textCharacters": {"guarded": 23, "total": 23}
                                },
                            }
                        }
                    ]
                },
                "actionReason": "Guardrail masked.",
            }
        }
    )


@pytest.fixture
def talkative() -> Any:
    """A server whose model says what the guardrail masks, and one whose model says more."""
    with served(lambda request: "Write to ana@example.com, soon. " * 3) as running:
        yield running


def test_an_answer_is_masked(talkative: Served) -> None:
    made = create(talkative)
    found = converse(talkative, made, say("Where?"))
    assert found["output"]["message"]["content"] == [{"text": "Write to {EMAIL}, soon. " * 3}]
    assert found["stopReason"] == "guardrail_intervened"
    assert found["trace"] == snapshot(
        {
            "guardrail": {
                "modelOutput": [
                    "Write to ana@example.com, soon. Write to ana@example.com, soon. "
                    "Write to ana@example.com, soon. "
                ],
                "inputAssessment": {
                    "ID": {
                        "invocationMetrics": {
                            "guardrailProcessingLatency": 0,
                            "guardrailCoverage": {"textCharacters": {"guarded": 6, "total": 6}},
                        }
                    }
                },
                "outputAssessments": {
                    "ID": [
                        {
                            "sensitiveInformationPolicy": {
                                "piiEntities": [
                                    {
                                        "match": "ana@example.com",
                                        "type": "EMAIL",
                                        "action": "ANONYMIZED",
                                        "detected": True,
                                    }
                                ],
                                "regexes": [],
                            },
                            "invocationMetrics": {
                                "guardrailProcessingLatency": 0,
                                "guardrailCoverage": {
                                    "textCharacters": {"guarded": 96, "total": 96}
                                },
                            },
                        }
                    ]
                },
                "actionReason": "Guardrail masked.",
            }
        }
    )
    events = stream(talkative, made, say("Where?"))
    assert "".join(texts(events)) == "Write to {EMAIL}, soon. " * 3
    assert (stop_reason(events), events[-1]["metadata"]["trace"]) == (
        "guardrail_intervened",
        found["trace"],
    )
    late = stream(talkative, made, say("Where?"), config={"streamProcessingMode": "async"})
    assert "".join(texts(late)) == "Write to ana@example.com, soon. " * 3


LONG = "Good morning to all of you. " * 40


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_blocked_answer_ends_the_stream(mode: str) -> None:
    from orchestrator.testing import ScriptedModel

    model = ScriptedModel([LONG + "darn it. " + LONG] * 2, CLAUDE, chunk=7)
    with served(model=model) as server:
        made = create(server)
        whole = converse(server, made, say("Where?"))
        assert whole["output"]["message"]["content"] == [{"text": "I cannot say that."}]
        assert whole["stopReason"] == "guardrail_intervened"
        events = stream(server, made, say("Where?"), config={"streamProcessingMode": mode})
    *said, last = texts(events)
    assert last == "I cannot say that."
    assert LONG.startswith("".join(said)) or mode == "async"
    assert len("".join(said)) > 500
    if mode == "sync":
        assert "darn" not in "".join(said)
    names = [next(iter(it)) for it in events if "contentBlockDelta" not in it]
    assert names == ["messageStart", "contentBlockStop", "messageStop", "metadata"]
    assert stop_reason(events) == "guardrail_intervened"
    assert events[-1]["metadata"]["trace"]["guardrail"]["actionReason"] == "Guardrail blocked."


def test_a_stream_without_findings_is_as_it_was(server: Served) -> None:
    made = create(server)
    text = "Good morning. " * 20
    events = stream(server, made, say(text), config={"trace": "disabled"})
    assert ("".join(texts(events)), stop_reason(events)) == (text, "end_turn")
    assert "trace" not in events[-1]["metadata"]
    assert "trace" not in converse(server, made, say(text), config={"trace": "disabled"})


def test_tool_calls_go_beside_a_guarded_text() -> None:
    use = {"toolUse": {"toolUseId": "t-1", "name": "t", "input": {"mail": "ana@example.com"}}}
    reply = [{"text": "Mail ana@example.com."}, use]
    with served([reply, reply]) as server:
        made = create(server)
        config = {"toolConfig": {"tools": [TOOL]}}
        found = converse(server, made, say("Mail"), **config)
        assert found["output"]["message"]["content"] == [{"text": "Mail {EMAIL}."}, use]
        events = stream(server, made, say("Mail"), **config)
    assert texts(events) == ["Mail {EMAIL}."]
    deltas = [it["contentBlockDelta"]["delta"] for it in events if "contentBlockDelta" in it]
    assert deltas[-1] == {"toolUse": {"input": '{"mail": "ana@example.com"}'}}


@pytest.mark.parametrize(
    ("params", "blocked"),
    [
        ({"messages": [say("darn")]}, True),
        ({"messages": [say("darn"), say("Yes?", role="assistant"), say("No.")]}, True),
        ({"messages": [say("which", "stock")]}, True),
        ({"messages": [say("Hello")], "system": [{"text": "darn"}]}, False),
        ({"messages": [say("Hello")], "system": [guard("darn")]}, True),
        ({"messages": [say("darn", guard("Hello"))]}, False),
        ({"messages": [say("Hello", guard("darn"))]}, True),
        ({"messages": [say(guard("darn", qualifiers=["grounding_source"]), "Hello")]}, False),
        (
            {
                "messages": [
                    say("Hello"),
                    say(USE, role="assistant"),
                    say({"toolResult": {"toolUseId": "a", "content": [{"text": "darn"}]}}),
                ],
                "toolConfig": {"tools": [TOOL]},
            },
            True,
        ),
    ],
)
def test_which_texts_are_guarded(params: Any, blocked: bool) -> None:
    with served(lambda request: "Yes.") as server:
        made = create(server)
        found = server.models.converse(modelId=CLAUDE, guardrailConfig=named(made), **params)
        assert (found["stopReason"] == "guardrail_intervened") == blocked


def test_masks_stand_in_what_is_marked(server: Served) -> None:
    made = create(server)
    message = say("Say: ", guard("I am ana@example.com."))
    found = converse(server, made, message)
    assert found["output"]["message"]["content"] == [{"text": "Say: \nI am {EMAIL}."}]
    assert found["trace"]["guardrail"]["inputAssessment"]["ID"]["invocationMetrics"] == {
        "guardrailProcessingLatency": 0,
        "guardrailCoverage": {"textCharacters": {"guarded": 21, "total": 26}},
    }


def invoke(server: Served, made: dict[str, Any], body: dict[str, Any], **given: Any) -> Any:
    answer = server.models.invoke_model(
        modelId=CLAUDE, body=json.dumps(body), **named(made), **given
    )
    found = json.loads(answer["body"].read())
    trace = found.get("amazon-bedrock-trace", {}).get("guardrail", {})
    for one in [trace.get("input"), *trace.get("outputs", ())]:
        for assessment in (one or {}).values():
            assessment.pop("invocationMetrics")
            assessment.pop("appliedGuardrailDetails")
    text = json.dumps(found).replace(made["guardrailId"], "ID")
    return {name: it for name, it in json.loads(text).items() if name != "id"}


def body(text: str) -> dict[str, Any]:
    return {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
    }


def test_invoke_model_has_guardrails_in_its_headers(server: Served) -> None:
    made = create(server)
    blocked = invoke(server, made, body("Which stock?"), trace="ENABLED")
    assert blocked == snapshot(
        {
            "type": "message",
            "role": "assistant",
            "model": "anthropic.claude-3-5-sonnet-20240620-v1:0",
            "content": [{"type": "text", "text": "I cannot talk about this."}],
            "stop_reason": "refusal",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
            },
            "amazon-bedrock-guardrailAction": "INTERVENED",
            "amazon-bedrock-trace": {
                "guardrail": {
                    "input": {
                        "ID": {
                            "topicPolicy": {
                                "topics": [
                                    {
                                        "name": "Investment advice",
                                        "type": "DENY",
                                        "action": "BLOCKED",
                                        "detected": True,
                                    }
                                ]
                            }
                        }
                    },
                    "actionReason": "Guardrail blocked.",
                }
            },
        }
    )
    passed = invoke(server, made, body("Hello"))
    assert passed["amazon-bedrock-guardrailAction"] == "NONE"
    assert "amazon-bedrock-trace" not in passed
    nova = {"messages": [say("I am ana@example.com")]}
    masked = invoke(server, made, nova, trace="ENABLED")
    assert masked["output"]["message"]["content"] == [{"text": "I am {EMAIL}"}]
    assert masked["amazon-bedrock-guardrailAction"] == "INTERVENED"
    titan = {"inputText": "darn", "textGenerationConfig": {}}
    assert invoke(server, made, titan)["results"][0]["outputText"] == "I cannot talk about this."


def test_a_stream_of_invoke_model_ends_with_what_the_guardrail_did(talkative: Served) -> None:
    made = create(talkative)
    answer = talkative.models.invoke_model_with_response_stream(
        modelId=CLAUDE, body=json.dumps(body("Where?")), trace="ENABLED", **named(made)
    )
    pieces = [json.loads(it["chunk"]["bytes"]) for it in answer["body"]]
    deltas = [it["delta"]["text"] for it in pieces if it["type"] == "content_block_delta"]
    assert "".join(deltas) == "Write to {EMAIL}, soon. " * 3
    assert pieces[-1]["amazon-bedrock-guardrailAction"] == "INTERVENED"
    trace = pieces[-1]["amazon-bedrock-trace"]["guardrail"]
    assert list(trace) == ["input", "outputs", "modelOutput", "actionReason"]


def test_guardrails_that_cannot_be_had_are_refused(server: Served) -> None:
    made = create(server)
    models, messages = server.models, [say("Hello")]
    asked = {"modelId": CLAUDE, "messages": messages}
    for call in (models.converse, models.converse_stream):
        with refused("ValidationException", "without a guardrailVersion"):
            call(guardrailConfig={"guardrailIdentifier": made["guardrailId"]}, **asked)
        with refused("ResourceNotFoundException", "has no version"):
            call(guardrailConfig=named(made, "7"), **asked)
        arn = made["guardrailArn"] + "x"
        with refused("ResourceNotFoundException"):
            call(guardrailConfig=named({"guardrailId": arn}), **asked)
    for config, given, text in (
        ({"tagSuffix": "x"}, named(made), "with a tagSuffix is not understood"),
        ({}, {}, "and the request no guardrailIdentifier"),
    ):
        sent = json.dumps({**body("Hello"), "amazon-bedrock-guardrailConfig": config})
        with refused("ValidationException", text):
            models.invoke_model(modelId=CLAUDE, body=sent, **given)
    assert server.model.requests == []
