"""Guardrails are made, edited, versioned and tagged through the API of `bedrock`."""

from __future__ import annotations

import json
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from control_support import Served, refused, served
from guardrail_support import FILTERS, MESSAGES, create, named, shown
from inline_snapshot import snapshot

from orchestrator.errors import DefinitionError, ValidationError
from orchestrator.guardrails import BedrockGuardrail
from orchestrator.server.guardrails import store


def test_a_guardrail_is_made_edited_and_versioned(server: Served) -> None:
    control = server.client("bedrock")
    made = create(server, description="For banks.")
    id, arn = made["guardrailId"], made["guardrailArn"]
    assert arn == f"arn:aws:bedrock:us-east-1:000000000000:guardrail/{id}"
    assert shown(made) == {
        "guardrailId": id,
        "guardrailArn": arn,
        "version": "DRAFT",
        "createdAt": "TIME",
    }
    assert made["ResponseMetadata"]["HTTPStatusCode"] == 202
    first = shown(control.get_guardrail(guardrailIdentifier=id))
    assert {**first, "guardrailId": "ID", "guardrailArn": "ARN"} == snapshot(
        {
            "name": "banking",
            "description": "For banks.",
            "guardrailId": "ID",
            "guardrailArn": "ARN",
            "version": "DRAFT",
            "status": "READY",
            "topicPolicy": {
                "topics": [
                    {
                        "name": "Investment advice",
                        "definition": "What to buy.",
                        "examples": ["which stock"],
                        "type": "DENY",
                    }
                ]
            },
            "wordPolicy": {"words": [{"text": "darn"}]},
            "sensitiveInformationPolicy": {
                "piiEntities": [
                    {"type": "EMAIL", "action": "ANONYMIZE"},
                    {"type": "US_SOCIAL_SECURITY_NUMBER", "action": "BLOCK"},
                ],
                "regexes": [
                    {"name": "booking", "pattern": "\\bBK-\\d{4}\\b", "action": "ANONYMIZE"}
                ],
            },
            "createdAt": "TIME",
            "updatedAt": "TIME",
            "statusReasons": [],
            "blockedInputMessaging": "I cannot talk about this.",
            "blockedOutputsMessaging": "I cannot say that.",
        }
    )
    assert shown(control.get_guardrail(guardrailIdentifier=arn)) == first

    version = control.create_guardrail_version(guardrailIdentifier=id, description="One.")
    assert shown(version) == {"guardrailId": id, "version": "1"}
    updated = control.update_guardrail(
        guardrailIdentifier=arn,
        name="banks",
        wordPolicyConfig={"wordsConfig": [{"text": "gosh", "inputAction": "NONE"}]},
        **MESSAGES,
    )
    assert shown(updated) == {
        "guardrailId": id,
        "guardrailArn": arn,
        "version": "DRAFT",
        "updatedAt": "TIME",
    }
    draft = shown(control.get_guardrail(guardrailIdentifier=id, guardrailVersion="DRAFT"))
    assert draft == {
        **{name: first[name] for name in (*MESSAGES, "guardrailId", "guardrailArn", "status")},
        "name": "banks",
        "version": "DRAFT",
        "wordPolicy": {"words": [{"text": "gosh", "inputAction": "NONE"}]},
        "statusReasons": [],
        "createdAt": "TIME",
        "updatedAt": "TIME",
    }
    one = shown(control.get_guardrail(guardrailIdentifier=id, guardrailVersion="1"))
    assert one == {**first, "version": "1", "description": "One."}

    create(server, "other")
    listed = control.list_guardrails()["guardrails"]
    assert [(it["name"], it["version"]) for it in listed] == [
        ("banks", "DRAFT"),
        ("other", "DRAFT"),
    ]
    assert {**shown(listed[0]), "id": "ID", "arn": "ARN"} == snapshot(
        {
            "id": "ID",
            "arn": "ARN",
            "status": "READY",
            "name": "banks",
            "version": "DRAFT",
            "createdAt": "TIME",
            "updatedAt": "TIME",
        }
    )
    pages = control.get_paginator("list_guardrails").paginate(
        guardrailIdentifier=id, PaginationConfig={"PageSize": 1}
    )
    versions = [[it["version"] for it in page["guardrails"]] for page in pages]
    assert versions == [["DRAFT"], ["1"]]

    control.delete_guardrail(guardrailIdentifier=id, guardrailVersion="1")
    with refused("ResourceNotFoundException", "has no version"):
        control.get_guardrail(guardrailIdentifier=id, guardrailVersion="1")
    control.delete_guardrail(guardrailIdentifier=id)
    with refused("ResourceNotFoundException"):
        control.get_guardrail(guardrailIdentifier=id)


def test_what_needs_amazons_models_is_refused_or_named(server: Served) -> None:
    control = server.client("bedrock")
    for given, text in (
        ({"contentPolicyConfig": FILTERS}, "a content filter cannot be had"),
        (
            {
                "contextualGroundingPolicyConfig": {
                    "filtersConfig": [{"type": "GROUNDING", "threshold": 0.5}]
                }
            },
            "contextual grounding cannot be had",
        ),
        (
            {"wordPolicyConfig": {"managedWordListsConfig": [{"type": "PROFANITY"}]}},
            "the list PROFANITY cannot be had",
        ),
        (
            {
                "sensitiveInformationPolicyConfig": {
                    "piiEntitiesConfig": [{"type": "NAME", "action": "BLOCK"}]
                }
            },
            "the tag notEnforced, whose value names it: NAME",
        ),
        (
            {
                "sensitiveInformationPolicyConfig": {
                    "regexesConfig": [{"name": "r", "pattern": "(", "action": "BLOCK"}]
                }
            },
            "the expression '(' cannot be used",
        ),
    ):
        with refused("ValidationException", text):
            create(server, **given)
    tags = [{"key": "notEnforced", "value": "contentPolicyConfig NAME"}]
    made = create(server, contentPolicyConfig=FILTERS, tags=tags)
    id = made["guardrailId"]
    found = control.get_guardrail(guardrailIdentifier=id)
    assert found["contentPolicy"] == {
        "filters": FILTERS["filtersConfig"],
        "tier": FILTERS["tierConfig"],
    }
    assert found["statusReasons"] == [
        "contentPolicyConfig is not enforced by this server",
        "NAME is not enforced by this server",
    ]
    control.untag_resource(resourceARN=made["guardrailArn"], tagKeys=["notEnforced"])
    with refused("ValidationException", "a content filter cannot be had"):
        control.update_guardrail(
            guardrailIdentifier=id, name="b", contentPolicyConfig=FILTERS, **MESSAGES
        )


def test_what_cannot_be_is_refused(server: Served) -> None:
    control = server.client("bedrock")
    made = create(server)
    with refused("ConflictException", "already a guardrail with the name 'banking'"):
        create(server)
    token = "t" * 20
    first = create(server, "again", clientRequestToken=token)
    assert shown(create(server, "again", clientRequestToken=token)) == shown(first)
    with refused("ConflictException", "clientToken"):
        create(server, "another", clientRequestToken=token)
    elsewhere = made["guardrailArn"].replace("us-east-1", "eu-west-1")
    for other in ("nowhere", elsewhere):
        for call, given in (
            (control.get_guardrail, {}),
            (control.update_guardrail, {"name": "x", **MESSAGES}),
            (control.delete_guardrail, {}),
            (control.create_guardrail_version, {}),
            (control.list_guardrails, {}),
        ):
            with refused("ResourceNotFoundException"):
                call(guardrailIdentifier=other, **given)
    for _ in range(20):
        control.create_guardrail_version(guardrailIdentifier=made["guardrailId"])
    with refused("ServiceQuotaExceededException", "the most are 20"):
        control.create_guardrail_version(guardrailIdentifier=made["guardrailId"])


def test_guardrails_have_tags(server: Served) -> None:
    control = server.client("bedrock")
    arn = create(server, tags=[{"key": "stage", "value": "dev"}])["guardrailArn"]
    control.tag_resource(resourceARN=arn, tags=[{"key": "team", "value": "a"}])
    control.untag_resource(resourceARN=arn, tagKeys=["stage", "unknown"])
    tags = control.list_tags_for_resource(resourceARN=arn)["tags"]
    assert tags == [{"key": "team", "value": "a"}]
    many = [{"key": f"k{number}", "value": ""} for number in range(50)]
    with refused("TooManyTagsException", "51 tags"):
        control.tag_resource(resourceARN=arn, tags=many)
    with refused("ResourceNotFoundException"):
        control.list_tags_for_resource(resourceARN=f"{arn}x")


FILE = """\
name: banking
wordPolicyConfig:
  wordsConfig: [{text: darn}]
contentPolicyConfig:
  filtersConfig: [{type: HATE, inputStrength: HIGH, outputStrength: HIGH}]
notEnforced: [contentPolicyConfig]
blockedInputMessaging: I cannot talk about this.
blockedOutputsMessaging: I cannot say that.
"""


def test_a_file_stands_for_a_guardrail_of_aws(tmp_path: Path) -> None:
    file = tmp_path / "banking.yaml"
    file.write_text(FILE)
    foreign = "arn:aws:bedrock:eu-central-1:123456789012:guardrail/other"
    with served(guardrails={"gr1a2b3c": file, foreign: file}) as server:
        control, models = server.client("bedrock"), server.models
        found = control.get_guardrail(guardrailIdentifier="gr1a2b3c")
        assert (found["name"], found["wordPolicy"]) == ("banking", {"words": [{"text": "darn"}]})
        assert found["statusReasons"] == ["contentPolicyConfig is not enforced by this server"]
        assert [it["id"] for it in control.list_guardrails()["guardrails"]] == ["gr1a2b3c", "other"]
        anywhere = foreign.replace("other", "gr1a2b3c")
        for identifier, version in (("gr1a2b3c", "7"), (anywhere, "DRAFT"), (foreign, "1")):
            answer = models.apply_guardrail(
                guardrailIdentifier=identifier,
                guardrailVersion=version,
                source="INPUT",
                content=[{"text": {"text": "darn"}}],
            )
            assert answer["outputs"] == [{"text": "I cannot talk about this."}]
        with refused("ConflictException", "is changed by editing that file") as _:
            control.delete_guardrail(guardrailIdentifier="gr1a2b3c")
    file.write_text(FILE.replace("notEnforced", "# "))
    with pytest.raises(DefinitionError, match="a content filter cannot be had"):
        with served(guardrails={"gr1a2b3c": file}):
            pass
    with pytest.raises(ValidationError, match="give an id of small letters"):
        with served(guardrails={"My Guardrail": file}):
            pass


SPARSE = """\
name: banking
topicPolicyConfig: {topicsConfig: [{name: Sport}]}
wordPolicyConfig:
  wordsConfig: []
  managedWordListsConfig: [{type: PROFANITY, wordsFile: words.txt}]
sensitiveInformationPolicyConfig: {piiEntitiesConfig: [{type: EMAIL}]}
blockedInputMessaging: I cannot talk about this.
blockedOutputsMessaging: I cannot say that.
"""


def test_a_file_may_leave_out_what_a_request_may_not(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("swordfish\n")
    file = tmp_path / "banking.yaml"
    file.write_text(SPARSE)
    with served(guardrails={"gr1a2b3c": file}) as server:
        found = server.client("bedrock").get_guardrail(guardrailIdentifier="gr1a2b3c")
        assert found["topicPolicy"] == {
            "topics": [{"name": "Sport", "definition": "-", "type": "DENY"}]
        }
        assert found["wordPolicy"] == {"managedWordLists": [{"type": "PROFANITY"}]}
        assert found["sensitiveInformationPolicy"] == {
            "piiEntities": [{"type": "EMAIL", "action": "BLOCK"}]
        }
        given = {"guardrailIdentifier": "gr1a2b3c", "guardrailVersion": "1", "source": "INPUT"}
        content = [{"text": {"text": "swordfish"}}]
        answer = server.models.apply_guardrail(content=content, **given)
        assert answer["action"] == "GUARDRAIL_INTERVENED"


def test_guardrails_stay_when_the_server_is_started_again(tmp_path: Path) -> None:
    state = tmp_path / "sessions.sqlite"
    with served(state=state) as server:
        made = create(server)
        server.client("bedrock").create_guardrail_version(guardrailIdentifier=made["guardrailId"])
    with served(state=state) as server:
        answer = server.models.apply_guardrail(
            source="OUTPUT", content=[{"text": {"text": "darn"}}], **named(made, "1")
        )
        assert answer["action"] == "GUARDRAIL_INTERVENED"


def _apply(server: Served, made: dict[str, Any], *texts: Any, **given: Any) -> dict[str, Any]:
    content = [{"text": it if isinstance(it, dict) else {"text": it}} for it in texts]
    asked = {"source": "INPUT", **named(made), **given}
    found: dict[str, Any] = shown(server.models.apply_guardrail(content=content, **asked))
    return found


def test_a_guardrail_is_applied(server: Served) -> None:
    made = create(server)
    id = made["guardrailId"]
    blocked = _apply(server, made, "Which stock?", "Mail ana@example.com", outputScope="FULL")
    details = blocked["assessments"][0].pop("appliedGuardrailDetails")
    assert details == {
        "guardrailId": id,
        "guardrailVersion": "DRAFT",
        "guardrailOrigin": ["REQUEST"],
        "guardrailOwnership": "SELF",
    }
    assert blocked == snapshot(
        {
            "usage": {
                "topicPolicyUnits": 1,
                "contentPolicyUnits": 0,
                "wordPolicyUnits": 1,
                "sensitiveInformationPolicyUnits": 1,
                "sensitiveInformationPolicyFreeUnits": 1,
                "contextualGroundingPolicyUnits": 0,
            },
            "action": "GUARDRAIL_INTERVENED",
            "actionReason": "Guardrail blocked.",
            "outputs": [{"text": "I cannot talk about this."}],
            "assessments": [
                {
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
                        "usage": {
                            "topicPolicyUnits": 1,
                            "contentPolicyUnits": 0,
                            "wordPolicyUnits": 1,
                            "sensitiveInformationPolicyUnits": 1,
                            "sensitiveInformationPolicyFreeUnits": 1,
                            "contextualGroundingPolicyUnits": 0,
                        },
                        "guardrailCoverage": {"textCharacters": {"guarded": 32, "total": 32}},
                    },
                }
            ],
            "guardrailCoverage": {"textCharacters": {"guarded": 32, "total": 32}},
        }
    )
    masked = _apply(server, made, "Mail ana@example.com about BK-1042.", "Or not.", source="OUTPUT")
    masked["assessments"][0].pop("appliedGuardrailDetails")
    assert masked == snapshot(
        {
            "usage": {
                "topicPolicyUnits": 1,
                "contentPolicyUnits": 0,
                "wordPolicyUnits": 1,
                "sensitiveInformationPolicyUnits": 1,
                "sensitiveInformationPolicyFreeUnits": 1,
                "contextualGroundingPolicyUnits": 0,
            },
            "action": "GUARDRAIL_INTERVENED",
            "actionReason": "Guardrail masked.",
            "outputs": [{"text": "Mail {EMAIL} about {booking}."}, {"text": "Or not."}],
            "assessments": [
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
                        "usage": {
                            "topicPolicyUnits": 1,
                            "contentPolicyUnits": 0,
                            "wordPolicyUnits": 1,
                            "sensitiveInformationPolicyUnits": 1,
                            "sensitiveInformationPolicyFreeUnits": 1,
                            "contextualGroundingPolicyUnits": 0,
                        },
                        "guardrailCoverage": {"textCharacters": {"guarded": 42, "total": 42}},
                    },
                }
            ],
            "guardrailCoverage": {"textCharacters": {"guarded": 42, "total": 42}},
        }
    )
    passed = _apply(server, made, "Good morning!", outputScope="FULL")
    assert (passed["action"], passed["actionReason"], passed["outputs"]) == snapshot(
        ("NONE", "No action.", [])
    )
    assert passed["assessments"][0]["topicPolicy"] == snapshot(
        {
            "topics": [
                {"name": "Investment advice", "type": "DENY", "action": "NONE", "detected": False}
            ]
        }
    )


def test_nothing_hides_between_two_texts_of_one_request(server: Served) -> None:
    made = create(server)
    assert _apply(server, made, "which", "stock")["outputs"] == [
        {"text": "I cannot talk about this."}
    ]


def test_sources_and_queries_are_not_guarded(server: Served) -> None:
    made = create(server)
    source = {"text": "darn", "qualifiers": ["grounding_source"]}
    query = {"text": "darn it", "qualifiers": ["query", "guard_content"]}
    assert _apply(server, made, source)["action"] == "NONE"
    found = _apply(server, made, source, query)
    assert found["guardrailCoverage"] == {"textCharacters": {"guarded": 7, "total": 11}}
    assert found["action"] == "GUARDRAIL_INTERVENED"


def test_checks_without_a_guardrail(server: Served) -> None:
    asked = {"sensitiveInformation": {"entities": [{"type": "EMAIL"}, {"type": "PHONE"}]}}
    messages = [
        {"role": "user", "content": [{"text": "I am é a@b.example."}, {"text": "No."}]},
        {"role": "assistant", "content": [{"text": "Call +49 170 1234567 or c@d.example"}]},
    ]
    answer = server.models.invoke_guardrail_checks(messages=messages, checks=asked)
    assert shown(answer) == snapshot(
        {
            "results": {
                "sensitiveInformation": {
                    "results": [
                        {
                            "type": "EMAIL",
                            "confidenceScore": 1.0,
                            "beginOffset": 7,
                            "endOffset": 18,
                            "messageIndex": 0,
                            "contentIndex": 0,
                        },
                        {
                            "type": "PHONE",
                            "confidenceScore": 1.0,
                            "beginOffset": 5,
                            "endOffset": 20,
                            "messageIndex": 1,
                            "contentIndex": 0,
                        },
                        {
                            "type": "EMAIL",
                            "confidenceScore": 1.0,
                            "beginOffset": 24,
                            "endOffset": 35,
                            "messageIndex": 1,
                            "contentIndex": 0,
                        },
                    ]
                }
            },
            "usage": {"sensitiveInformation": {"textUnits": 1}},
        }
    )
    for checks, text in (
        ({"contentFilter": {"categories": [{"category": "HATE"}]}}, "checks.contentFilter needs"),
        ({"promptAttack": {"categories": [{"category": "JAILBREAK"}]}}, "checks.promptAttack"),
        ({"sensitiveInformation": {"entities": [{"type": "NAME"}]}}, "NAME cannot be found"),
        ({}, "there are no checks"),
    ):
        with refused("ValidationException", text):
            server.models.invoke_guardrail_checks(messages=messages, checks=checks)


def test_a_guardrail_of_aws_answers_for_itself(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {
        "usage": {
            "topicPolicyUnits": 0,
            "contentPolicyUnits": 1,
            "wordPolicyUnits": 0,
            "sensitiveInformationPolicyUnits": 0,
            "sensitiveInformationPolicyFreeUnits": 0,
            "contextualGroundingPolicyUnits": 0,
        },
        "action": "NONE",
        "outputs": [],
        "assessments": [],
    }
    asked = []

    class Amazon:
        def apply_guardrail(self, **params: Any) -> dict[str, Any]:
            asked.append(params)
            return {**answer, "ResponseMetadata": {}}

    monkeypatch.setattr(store, "BedrockGuardrail", partial(BedrockGuardrail, client=Amazon()))
    params = {
        "guardrailIdentifier": "ofamazon",
        "guardrailVersion": "1",
        "source": "INPUT",
        "content": [{"text": {"text": "Hello"}}],
        "outputScope": "FULL",
    }
    assert shown(server.models.apply_guardrail(**params)) == answer
    assert asked == [params]


def test_a_request_names_no_file_of_the_server(server: Served, tmp_path: Path) -> None:
    """Our own members of guardrails in files mean nothing in a request."""
    (tmp_path / "words.txt").write_text("swordfish\n")
    words = {"type": "PROFANITY", "wordsFile": str(tmp_path / "words.txt")}
    body = {
        "name": "a",
        "notEnforced": ["PROFANITY"],
        "wordPolicyConfig": {"managedWordListsConfig": [words]},
        **MESSAGES,
    }
    address = urlsplit(server.url)
    connection = HTTPConnection(address.hostname or "", address.port)
    connection.request("POST", "/guardrails", json.dumps(body))
    answer = connection.getresponse()
    message = json.loads(answer.read())["message"]
    connection.close()
    assert (answer.status, "the list PROFANITY cannot be had" in message) == (400, True)
