"""The models and inference profiles of a server, listed through the API of `bedrock`."""

from __future__ import annotations

from typing import Any

from control_support import Served, refused, served
from inline_snapshot import snapshot

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
ARN = "arn:aws:bedrock:us-east-1:"
MODELS = {CLAUDE: "local:0.5b", NOVA: "local:0.5b", "mistral.*": "local:0.5b", "mine": "local:0.5b"}


def without_http(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in answer.items() if name != "ResponseMetadata"}


def start(**given: Any) -> Any:
    return served(answers_for="nothing", models=MODELS, **given)


def test_models_that_are_mapped_are_listed() -> None:
    with start() as server:
        control = server.client("bedrock")
        found = control.list_foundation_models()["modelSummaries"]
        assert found == snapshot(
            [
                {
                    "modelArn": f"{ARN}:foundation-model/{CLAUDE}",
                    "modelId": "anthropic.claude-3-5-sonnet-20240620-v1:0",
                    "modelName": "claude-3-5-sonnet-20",
                    "providerName": "Anthropic",
                    "inputModalities": ["TEXT"],
                    "outputModalities": ["TEXT"],
                    "responseStreamingSupported": True,
                    "customizationsSupported": [],
                    "inferenceTypesSupported": ["ON_DEMAND"],
                    "modelLifecycle": {"status": "ACTIVE"},
                }
            ]
        )
        described = control.get_foundation_model(modelIdentifier=CLAUDE)["modelDetails"]
        assert [described] == found
        by_arn = control.get_foundation_model(modelIdentifier=found[0]["modelArn"])
        assert by_arn["modelDetails"] == described
        # What fits a pattern is there, and is not listed before an agent names it.
        large = "mistral.mistral-large-2402-v1:0"
        assert (
            control.get_foundation_model(modelIdentifier=large)["modelDetails"]["modelId"] == large
        )
        _create(server, large)
        _create(server, "amazon.titan-text-premier-v1:0")
        listed = control.list_foundation_models()["modelSummaries"]
        assert [it["modelId"] for it in listed] == [CLAUDE, large]
        for given, count in (
            ({"byProvider": "Anthropic"}, 1),
            ({"byOutputModality": "IMAGE"}, 0),
            ({"byOutputModality": "TEXT"}, 2),
            ({"byInferenceType": "PROVISIONED"}, 0),
            ({"byCustomizationType": "FINE_TUNING"}, 0),
        ):
            assert len(control.list_foundation_models(**given)["modelSummaries"]) == count
        for missing in (NOVA[3:], "amazon.titan-text-premier-v1:0"):
            with refused("ResourceNotFoundException", "map one with --model"):
                control.get_foundation_model(modelIdentifier=missing)


def _create(server: Served, model: str) -> None:
    server.create(model.partition(".")[0], foundationModel=model)


def test_profiles_that_are_mapped_are_listed() -> None:
    with start() as server:
        control = server.client("bedrock")
        found = control.list_inference_profiles()["inferenceProfileSummaries"]
        assert found == snapshot(
            [
                {
                    "inferenceProfileName": "us-amazon-nova-lite-v1-0",
                    "inferenceProfileArn": f"{ARN}000000000000:inference-profile/{NOVA}",
                    "models": [{"modelArn": f"{ARN}:foundation-model/{NOVA[3:]}"}],
                    "inferenceProfileId": "us.amazon.nova-lite-v1:0",
                    "status": "ACTIVE",
                    "type": "SYSTEM_DEFINED",
                }
            ]
        )
        for identifier in (NOVA, found[0]["inferenceProfileArn"]):
            described = control.get_inference_profile(inferenceProfileIdentifier=identifier)
            assert without_http(described) == found[0]
        applied = control.list_inference_profiles(typeEquals="APPLICATION")
        assert applied["inferenceProfileSummaries"] == []
        for missing in (CLAUDE, "us.meta.llama3-2-1b-instruct-v1:0"):
            with refused("ResourceNotFoundException", "map one with --model"):
                control.get_inference_profile(inferenceProfileIdentifier=missing)
