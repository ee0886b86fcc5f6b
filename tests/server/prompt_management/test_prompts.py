"""Prompt management: prompts are made, edited, versioned, and used through Converse."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from control_support import CLAUDE, Served, refused, says, served
from inline_snapshot import snapshot

TEXT = {
    "name": "short",
    "templateType": "TEXT",
    "templateConfiguration": {
        "text": {
            "text": "Make a {{ genre }} playlist of {{number}} songs.",
            "inputVariables": [{"name": "genre"}, {"name": "number"}],
        }
    },
    "modelId": CLAUDE,
    "inferenceConfiguration": {"text": {"temperature": 0.5, "maxTokens": 100}},
}
TOOL = {
    "toolSpec": {
        "name": "play",
        "description": "Plays.",
        "inputSchema": {"json": {"type": "object", "properties": {"song": {"type": "string"}}}},
    }
}
CACHE = {"cachePoint": {"type": "default"}}
CHAT = {
    "name": "talk",
    "templateType": "CHAT",
    "templateConfiguration": {
        "chat": {
            "system": [{"text": "You like {{genre}}."}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"text": "Hello"}, {"cachePoint": {"type": "default"}}],
                },
                {"role": "assistant", "content": [{"text": "Which {{genre}} song?"}]},
            ],
            "inputVariables": [{"name": "genre"}],
            "toolConfiguration": {"tools": [TOOL], "toolChoice": {"any": {}}},
        }
    },
    "modelId": CLAUDE,
    "additionalModelRequestFields": {"top_k": 3},
}
VALUES = {"genre": {"text": "{{number}} $1 \\g<0>"}, "number": {"text": "5"}}


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with fixed times, and without what is HTTP's."""
    found = {name: it for name, it in answer.items() if name != "ResponseMetadata"}
    return {name: "TIME" if isinstance(it, datetime) else it for name, it in found.items()}


def create(server: Served, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.control.create_prompt(
        **{"name": "playlist", "variants": [TEXT], "defaultVariant": "short", **given}
    )
    return found


def test_a_prompt_is_made_edited_and_versioned(server: Served) -> None:
    control = server.control
    made = create(server, description="Songs.", tags={"stage": "dev"})
    id, arn = made["id"], made["arn"]
    assert arn == f"arn:aws:bedrock:us-east-1:000000000000:prompt/{id}"
    expected = {
        "name": "playlist",
        "description": "Songs.",
        "defaultVariant": "short",
        "variants": [TEXT],
        "id": id,
        "arn": arn,
        "version": "DRAFT",
        "createdAt": "TIME",
        "updatedAt": "TIME",
    }
    assert shown(made) == expected
    assert made["ResponseMetadata"]["HTTPStatusCode"] == 201
    assert shown(control.get_prompt(promptIdentifier=id)) == expected
    assert shown(control.get_prompt(promptIdentifier=arn)) == expected
    told = control.get_prompt(promptIdentifier=id, includedData="METADATA_ONLY")
    assert shown(told) == {name: it for name, it in expected.items() if name != "variants"}

    version = control.create_prompt_version(
        promptIdentifier=id, description="The first.", tags={"stage": "live"}
    )
    first = {**expected, "version": "1", "arn": f"{arn}:1", "description": "The first."}
    assert shown(version) == first
    updated = control.update_prompt(
        promptIdentifier=id, name="talks", variants=[CHAT], defaultVariant="talk"
    )
    assert shown(updated) == {
        **{name: it for name, it in expected.items() if name != "description"},
        "name": "talks",
        "variants": [CHAT],
        "defaultVariant": "talk",
    }
    assert shown(control.get_prompt(promptIdentifier=id, promptVersion="1")) == first
    assert shown(control.get_prompt(promptIdentifier=f"{arn}:1")) == first

    summary = {"id": id, "arn": arn, "version": "DRAFT", "createdAt": "TIME", "updatedAt": "TIME"}
    listed = control.list_prompts()["promptSummaries"]
    assert [shown(it) for it in listed] == [{**summary, "name": "talks"}]
    assert [
        (it["version"], it["name"])
        for it in control.list_prompts(promptIdentifier=id)["promptSummaries"]
    ] == [("DRAFT", "talks"), ("1", "playlist")]

    for what, stage in ((arn, "dev"), (f"{arn}:1", "live")):
        assert control.list_tags_for_resource(resourceArn=what)["tags"] == {"stage": stage}
    gone = control.delete_prompt(promptIdentifier=id, promptVersion="1")
    assert shown(gone) == {"id": id, "version": "1"}
    with refused("ResourceNotFoundException", "has no version"):
        control.get_prompt(promptIdentifier=id, promptVersion="1")
    assert control.create_prompt_version(promptIdentifier=id)["version"] == "2"
    assert shown(control.delete_prompt(promptIdentifier=id)) == {"id": id}
    with refused("ResourceNotFoundException"):
        control.get_prompt(promptIdentifier=id)
    assert server.world.documents._rows._file.rows("SELECT * FROM document") == []


def test_lists_come_in_pages_of_ten(server: Served) -> None:
    control = server.control
    made = [create(server, name=f"p-{number}")["id"] for number in range(12)]
    first = control.list_prompts(maxResults=100)
    second = control.list_prompts(nextToken=first["nextToken"])
    assert "nextToken" not in second
    found = [it["id"] for page in (first, second) for it in page["promptSummaries"]]
    assert (found, len(first["promptSummaries"])) == (made, 10)
    for _ in range(10):
        control.create_prompt_version(promptIdentifier=made[0])
    with refused("ServiceQuotaExceededException", "the most are 10"):
        control.create_prompt_version(promptIdentifier=made[0])
    pages = control.get_paginator("list_prompts").paginate(
        promptIdentifier=made[0], PaginationConfig={"PageSize": 4}
    )
    versions = [it["version"] for page in pages for it in page["promptSummaries"]]
    assert versions == ["DRAFT", *map(str, range(1, 11))]


def test_what_cannot_be_is_refused(server: Served) -> None:
    control = server.control
    id = create(server)["id"]
    with refused("ConflictException", "already a prompt with the name 'playlist'"):
        create(server)
    with refused("ValidationException", "'other' is the name of no variant"):
        create(server, name="b", defaultVariant="other")
    with refused("ValidationException", "templateConfiguration.chat"):
        create(server, name="b", variants=[{**TEXT, "templateType": "CHAT"}])
    many = " ".join(f"{{{{v{number}}}}}" for number in range(21))
    text = {**TEXT, "templateConfiguration": {"text": {"text": many}}}
    with refused("ValidationException", "21 variables"):
        create(server, name="b", variants=[text])
    arn = control.create_prompt_version(promptIdentifier=id)["arn"]
    for change in (
        lambda: control.update_prompt(promptIdentifier=arn, name="x"),
        lambda: control.create_prompt_version(promptIdentifier=arn),
    ):
        with refused("ValidationException", "is a version, which never changes"):
            change()
    for other in ("NOWHERE123", arn.replace("000000000000", "123456789012")):
        for call, given in (
            (control.get_prompt, {}),
            (control.update_prompt, {"name": "x"}),
            (control.delete_prompt, {}),
            (control.create_prompt_version, {}),
            (control.list_prompts, {}),
        ):
            with refused("ResourceNotFoundException", "there is no prompt"):
                call(promptIdentifier=other, **given)


def test_a_request_that_is_sent_again_makes_one_prompt(server: Served) -> None:
    token = "t" * 40
    first = create(server, clientToken=token)
    assert shown(create(server, clientToken=token)) == shown(first)
    with refused("ConflictException", "clientToken"):
        create(server, clientToken=token, name="other")
    assert len(server.control.list_prompts()["promptSummaries"]) == 1


def ask(server: Served, arn: str, **given: Any) -> str:
    models = server.models
    text: str = models.converse(modelId=arn, **given)["output"]["message"]["content"][0]["text"]
    stream = models.converse_stream(modelId=arn, **given)["stream"]
    deltas = [it["contentBlockDelta"]["delta"] for it in stream if "contentBlockDelta" in it]
    assert "".join(it["text"] for it in deltas) == text
    first, second = server.model.requests[-2:]
    assert (first.system, first.messages, first.inference, first.tools, first.additional) == (
        second.system,
        second.messages,
        second.inference,
        second.tools,
        second.additional,
    )
    return text


def test_a_text_is_filled_and_asked(server: Served) -> None:
    made = create(server)
    assert ask(server, made["arn"], promptVariables=VALUES) == "Yes."
    (request, _) = server.model.requests
    assert [it["content"] for it in request.messages] == snapshot(
        [[{"text": "Make a {{number}} $1 \\g<0> playlist of 5 songs."}]]
    )
    assert request.inference == snapshot({"maximumLength": 100, "temperature": 0.5})


def test_a_chat_is_filled_and_goes_on(server: Served) -> None:
    made = create(server, variants=[CHAT], defaultVariant="talk")
    arn = server.control.create_prompt_version(promptIdentifier=made["id"])["arn"]
    server.control.update_prompt(promptIdentifier=made["id"], name="empty")
    more = [{"role": "user", "content": [{"text": "Some {{genre}}."}]}]
    ask(server, arn, promptVariables={"genre": {"text": "jazz"}}, messages=more)
    (request, _) = server.model.requests
    assert [(it["role"], it["content"]) for it in request.messages] == snapshot(
        [
            ("user", [{"text": "Hello"}]),
            ("assistant", [{"text": "Which jazz song?"}]),
            ("user", [{"text": "Some {{genre}}."}]),
        ]
    )
    assert request.system == "You like jazz."
    assert (list(request.tools), request.tool_choice) == ([TOOL], {"any": {}})
    assert request.additional == {"top_k": 3}


def test_what_a_prompt_sets_may_not_be_sent(server: Served) -> None:
    arn = create(server)["arn"]
    with refused("ValidationException", "variables without a value: 'genre', 'number'"):
        server.models.converse(modelId=arn)
    for given in (
        {"system": [{"text": "Hi"}]},
        {"inferenceConfig": {"maxTokens": 1}},
        {"toolConfig": {"tools": [TOOL]}},
        {"additionalModelRequestFields": {"top_k": 1}},
    ):
        for call in (server.models.converse, server.models.converse_stream):
            with refused("ValidationException", f"{next(iter(given))!r} cannot be given together"):
                call(modelId=arn, promptVariables=VALUES, **given)
    with refused("ValidationException", "is a prompt, which Converse and ConverseStream use"):
        server.models.invoke_model(modelId=arn, body=b"{}")
    with refused("ResourceNotFoundException"):
        server.models.converse(modelId=f"{arn}:7", promptVariables=VALUES)
    assert server.model.requests == []


@pytest.mark.parametrize(
    ("variants", "text"),
    [
        ([], "has no default variant"),
        ([{name: it for name, it in TEXT.items() if name != "modelId"}], "names no model"),
        (
            [
                {
                    **{name: it for name, it in TEXT.items() if name != "modelId"},
                    "genAiResource": {
                        "agent": {
                            "agentIdentifier": "arn:aws:bedrock:us-east-1:000000000000:"
                            "agent-alias/AAAAAAAAAA/BBBBBBBBBB"
                        }
                    },
                }
            ],
            "is for an agent",
        ),
    ],
)
def test_a_prompt_may_be_unfit_for_a_model(server: Served, variants: list[Any], text: str) -> None:
    made = server.control.create_prompt(name="draft", variants=variants)
    with refused("ValidationException", text):
        server.models.converse(modelId=made["arn"], promptVariables=VALUES)


def test_variables_without_a_prompt_mean_nothing(server: Served) -> None:
    message = [{"role": "user", "content": [{"text": "Hello {{genre}}"}]}]
    server.models.converse(modelId=CLAUDE, messages=message, promptVariables=VALUES)
    (request,) = server.model.requests
    assert request.messages[0]["content"] == [{"text": "Hello {{genre}}"}]


def test_prompts_stay_when_the_server_is_started_again(tmp_path: Path) -> None:
    state = tmp_path / "sessions.sqlite"
    with served([says("Yes.")], state=state) as server:
        id = create(server)["id"]
        arn = server.control.create_prompt_version(promptIdentifier=id)["arn"]
    with served(["Yes.", "Yes."], state=state) as server:
        assert ask(server, arn, promptVariables=VALUES) == "Yes."
        assert server.control.create_prompt_version(promptIdentifier=id)["version"] == "2"
