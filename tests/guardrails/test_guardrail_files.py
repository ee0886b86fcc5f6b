"""A local guardrail as a file: CreateGuardrail's members, mistakes with their places."""

from __future__ import annotations

import json

import pytest
from botocore.validate import ParamValidator
from botocore_shapes import service

from orchestrator.definition import AgentDefinition, parse_definition
from orchestrator.definition.guardrail import GuardrailDefinition
from orchestrator.definition.guardrail_file import build_guardrail, guardrail_of, load_guardrail
from orchestrator.errors import DefinitionError, ResourceNotFound
from orchestrator.guardrails import BedrockGuardrail, LocalGuardrail

WHOLE = {
    "name": "banking",
    "description": "What a bank's agent may say.",
    "topicPolicyConfig": {
        "topicsConfig": [
            {
                "name": "Investment advice",
                "definition": "Recommending what to buy.",
                "examples": ["which stock to buy"],
                "type": "DENY",
                "outputAction": "NONE",
            }
        ],
        "tierConfig": {"tierName": "CLASSIC"},
    },
    "contentPolicyConfig": {
        "filtersConfig": [{"type": "HATE", "inputStrength": "NONE", "outputStrength": "NONE"}]
    },
    "wordPolicyConfig": {"wordsConfig": [{"text": "darn", "inputEnabled": False}]},
    "sensitiveInformationPolicyConfig": {
        "piiEntitiesConfig": [
            {"type": "EMAIL", "action": "ANONYMIZE"},
            {"type": "PIN", "action": "BLOCK", "inputAction": "NONE", "outputEnabled": False},
        ],
        "regexesConfig": [
            {
                "name": "booking",
                "pattern": r"BK-\d+",
                "action": "BLOCK",
                "outputAction": "ANONYMIZE",
            }
        ],
    },
    "blockedInputMessaging": "Not asked.",
    "blockedOutputsMessaging": "Not told.",
    "tags": [{"key": "team", "value": "bank"}],
    "kmsKeyId": "alias/key",
    "clientRequestToken": "t-1",
}


def test_a_request_of_bedrocks_works_as_it_is():
    shape = service("bedrock").shape_for("CreateGuardrailRequest")
    assert not ParamValidator().validate(WHOLE, shape).has_errors()
    guardrail = guardrail_of(WHOLE)
    assert guardrail.id == "banking"
    assert guardrail.check("Which stock to buy?", "INPUT").text == "Not asked."
    assert guardrail.check("Which stock to buy?", "OUTPUT").action == "NONE"
    assert guardrail.check("darn", "INPUT").action == "NONE"
    assert guardrail.check("darn", "OUTPUT").text == "Not told."
    assert guardrail.check("a@b.com", "INPUT").text == "{EMAIL}"
    assert guardrail.check("pin is 1234", "INPUT").action == "NONE"
    assert guardrail.check("pin is 1234", "OUTPUT").action == "NONE"
    assert guardrail.check("BK-1", "INPUT").blocked
    assert guardrail.check("BK-1", "OUTPUT").text == "{booking}"


def test_every_member_of_bedrocks_request_is_known():
    def compare(shape, part):
        ours = {str(field.alias): field for field in part.model_fields.values()}
        assert set(shape.members) <= set(ours)

    bedrock = service("bedrock")
    compare(bedrock.shape_for("CreateGuardrailRequest"), GuardrailDefinition)
    import orchestrator.definition.guardrail as parts

    for shape, part in {
        "GuardrailTopicConfig": parts.GuardrailTopic,
        "GuardrailTopicPolicyConfig": parts.GuardrailTopicPolicy,
        "GuardrailWordConfig": parts.GuardrailWord,
        "GuardrailManagedWordsConfig": parts.GuardrailManagedWords,
        "GuardrailWordPolicyConfig": parts.GuardrailWordPolicy,
        "GuardrailPiiEntityConfig": parts.GuardrailPii,
        "GuardrailRegexConfig": parts.GuardrailRegex,
        "GuardrailSensitiveInformationPolicyConfig": parts.GuardrailSensitiveInformationPolicy,
        "GuardrailContentFilterConfig": parts.GuardrailContentFilter,
        "GuardrailContentPolicyConfig": parts.GuardrailContentPolicy,
    }.items():
        compare(bedrock.shape_for(shape), part)


@pytest.mark.parametrize("name", ["guardrail.json", "guardrail.yaml"])
def test_a_file_is_read(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(WHOLE))
    assert load_guardrail(tmp_path / name).check("BK-1", "INPUT").blocked


def test_what_get_guardrail_answers_works_too():
    policies = ("topicPolicy", "contentPolicy", "wordPolicy", "sensitiveInformationPolicy")
    response = {
        **{it: WHOLE[it] for it in ("name", "description")},
        **{it: WHOLE[it] for it in ("blockedInputMessaging", "blockedOutputsMessaging")},
        **{
            policy: {
                name.removesuffix("Config"): value
                for name, value in WHOLE[f"{policy}Config"].items()
            }
            for policy in policies
        },
        "guardrailId": "gr1",
        "guardrailArn": "arn:x",
        "version": "DRAFT",
        "status": "READY",
        "createdAt": "2026-01-01",
        "updatedAt": "2026-01-01",
        "kmsKeyArn": "arn:y",
    }
    shape = service("bedrock").shape_for("GetGuardrailResponse")
    assert response.keys() <= shape.members.keys()
    for policy in policies:
        assert response[policy].keys() <= shape.members[policy].members.keys()
    guardrail = guardrail_of(response)
    for text in ("Which stock to buy?", "BK-1", "a@b.com", "darn", "pin is 1234"):
        for source in ("INPUT", "OUTPUT"):
            assert guardrail.check(text, source) == guardrail_of(WHOLE).check(text, source)


def test_every_member_of_get_guardrails_answer_is_known():
    from orchestrator.definition import guardrail_file

    members = {str(field.alias) for field in GuardrailDefinition.model_fields.values()}
    known = members | guardrail_file._SET_BY_BEDROCK | set(guardrail_file.POLICIES)
    assert set(service("bedrock").shape_for("GetGuardrailResponse").members) <= known


REFUSED = [
    (
        {"contentPolicyConfig": {"filtersConfig": [
            {"type": "HATE", "inputStrength": "HIGH", "outputStrength": "NONE"}]}},
        "contentPolicyConfig", "a content filter",
    ),
    (
        {"contextualGroundingPolicyConfig": {"filtersConfig": [
            {"type": "GROUNDING", "threshold": 0.5}]}},
        "contextualGroundingPolicyConfig", "contextual grounding",
    ),
    (
        {"automatedReasoningPolicyConfig": {"policies": ["arn:x"]}},
        "automatedReasoningPolicyConfig", "automated reasoning",
    ),
    (
        {"sensitiveInformationPolicyConfig": {"piiEntitiesConfig": [
            {"type": "NAME", "action": "ANONYMIZE"}]}},
        "NAME", "finding NAME",
    ),
    (
        {"wordPolicyConfig": {"managedWordListsConfig": [{"type": "PROFANITY"}]}},
        "PROFANITY", "the list PROFANITY",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("members", "name", "what"), REFUSED)
def test_what_cannot_be_had_is_refused_unless_it_may_be_left_out(members, name, what):
    with pytest.raises(DefinitionError) as caught:
        guardrail_of({**WHOLE, **members})
    assert f"{what} cannot be had" in str(caught.value)
    assert f"notEnforced: [{name}]" in str(caught.value)
    guardrail = guardrail_of({**WHOLE, **members, "notEnforced": [name]})
    assert guardrail.check("I hate Ann", "INPUT").action == "NONE"


def test_a_list_of_ones_own_for_profanity(tmp_path):
    lists = {"managedWordListsConfig": [{"type": "PROFANITY", "wordsFile": "words.txt"}]}
    (tmp_path / "words.txt").write_text("drat\n\n  gosh darn \n")
    (tmp_path / "g.json").write_text(json.dumps({**WHOLE, "wordPolicyConfig": lists}))
    guardrail = load_guardrail(tmp_path / "g.json")
    (found,) = guardrail.check("Gosh darn!", "OUTPUT").assessments
    assert found["wordPolicy"]["managedWordLists"][0]["type"] == "PROFANITY"
    (tmp_path / "words.txt").write_text("drat\n...\n")
    with pytest.raises(DefinitionError, match=r"words\.txt:2: '...' has no word in it"):
        load_guardrail(tmp_path / "g.json")


@pytest.mark.parametrize("name", ["../words.txt", "/etc/passwd", "link.txt", "nowhere.txt"])
def test_a_list_stays_in_the_folder(tmp_path, name):
    folder = tmp_path / "agent"
    folder.mkdir()
    (tmp_path / "words.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "words.txt")
    lists = {"managedWordListsConfig": [{"type": "PROFANITY", "wordsFile": name}]}
    (folder / "g.json").write_text(json.dumps({**WHOLE, "wordPolicyConfig": lists}))
    with pytest.raises(DefinitionError) as caught:
        load_guardrail(folder / "g.json")
    assert "g.json:1:" in str(caught.value) and "secret" not in str(caught.value)


HEAD = "name: g\nblockedInputMessaging: a\nblockedOutputsMessaging: b\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: g\n", "g.yaml:1:1: 'blockedInputMessaging' is missing; add it"),
        ("- a\n", "g.yaml:1:1: the file must hold a mapping"),
        (HEAD + "blokedInputMessaging: x\n", "g.yaml:4:1: 'blokedInputMessaging' is not a member "
         "of a guardrail; did you mean 'blockedInputMessaging'?"),
        (HEAD + "sensitiveInformationPolicyConfig:\n  piiEntitiesConfig: [{type: EMIAL}]\n",
         "did you mean 'EMAIL'?"),
        (HEAD + "sensitiveInformationPolicyConfig:\n  regexesConfig:\n"
         "    - {name: r, pattern: '(a'}\n", "g.yaml:6:26: the expression '(a' cannot be used"),
        (HEAD + "wordPolicyConfig:\n  wordsConfig:\n    - text: '--'\n",
         "g.yaml:6:13: '--' has no word in it"),
        (HEAD + "topicPolicyConfig:\n  topicsConfig:\n    - {name: T, examples: ['?']}\n",
         "g.yaml:6:28: '?' has no word in it"),
        (HEAD + "topicSimilarityThreshold: 0.5\n", "g.yaml:4:27: finding topics by meaning"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_places(tmp_path, text, message):
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(DefinitionError) as caught:
        load_guardrail(tmp_path / "g.yaml")
    assert message in str(caught.value)


def test_an_embedder_is_made_when_it_is_asked_for():
    class Embedder:
        id, dimensions = "e", 2

    made = []
    guardrail_of(WHOLE, embedder=lambda: made.append(1) or Embedder())
    assert made == []
    guardrail_of(
        {**WHOLE, "topicSimilarityThreshold": 0.5}, embedder=lambda: made.append(1) or Embedder()
    )
    assert made == [1]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ResourceNotFound, match=r"there is no guardrail at"):
        load_guardrail(tmp_path / "g.yaml")


# The agent's definition


def agent(guardrail: str, folder=None) -> AgentDefinition:
    return parse_definition(f"agentName: a\nguardrailConfiguration: {guardrail}\n", folder=folder)


def test_an_agent_without_a_guardrail():
    assert build_guardrail(parse_definition("agentName: a")) is None


def test_a_guardrail_of_bedrocks():
    guardrail = build_guardrail(
        agent("{guardrailIdentifier: gr1, guardrailVersion: '3'}"), region="eu-west-1"
    )
    assert isinstance(guardrail, BedrockGuardrail)
    assert (guardrail.id, guardrail.version) == ("gr1", "3")
    other = build_guardrail(agent("{guardrailIdentifier: gr1}"))
    assert isinstance(other, BedrockGuardrail) and other.version == "DRAFT"


def test_a_configuration_without_a_guardrail_is_refused():
    with pytest.raises(DefinitionError, match=r"agent\.yaml:2:\d+: give .* or a file"):
        build_guardrail(agent("{guardrailVersion: '3'}"))


def agent_with(folder, **members) -> AgentDefinition:
    return agent(json.dumps(members), folder)


def test_a_guardrail_in_a_file(tmp_path):
    (tmp_path / "guardrail.yaml").write_text(json.dumps(WHOLE))
    guardrail = build_guardrail(agent_with(tmp_path, file="guardrail.yaml"))
    assert isinstance(guardrail, LocalGuardrail) and guardrail.id == "banking"
    assert build_guardrail(agent_with(None, file="guardrail.yaml"), tmp_path) is not None


@pytest.mark.parametrize(
    "members",
    [
        {"file": "../guardrail.yaml"},
        {"file": "nowhere.yaml"},
        {"file": "guardrail.yaml", "guardrailIdentifier": "gr1"},
        {"file": "guardrail.yaml", "guardrailVersion": "3"},
    ],
)
def test_a_guardrail_in_a_wrong_file(tmp_path, members):
    (tmp_path / "guardrail.yaml").write_text(json.dumps(WHOLE))
    with pytest.raises(DefinitionError, match=r"agent\.yaml:2:"):
        build_guardrail(agent_with(tmp_path, **members))
