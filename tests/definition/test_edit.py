"""A stage's template is named in the text of an `agent.yaml`, and all else stays as it is."""

import json

import pytest
from inline_snapshot import snapshot

from orchestrator.definition import parse_definition
from orchestrator.definition.edit import name_template
from orchestrator.errors import DefinitionError

HEAD = "agentName: a  # a name\ninstruction: You help.\n"


def change(rest, stage="ORCHESTRATION", head=HEAD):
    text = name_template(head + rest, "agent.yaml", stage, "templates/orchestration.json")
    assert text is not None
    prompt = parse_definition(text).prompt(stage)
    assert prompt.overridden and prompt.prompt_state == "ENABLED"
    return text.removeprefix(head)


def test_a_definition_without_prompts():
    assert change("# The end.\n") == snapshot(
        """\
# The end.
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      promptCreationMode: OVERRIDDEN
      promptState: ENABLED
      basePromptTemplateFile: templates/orchestration.json
"""
    )


def test_a_definition_without_a_last_line_end():
    assert change("foundationModel: local").startswith(
        "foundationModel: local\npromptOverrideConfiguration:\n"
    )


def test_only_a_parser_lambda():
    assert change(
        """\
promptOverrideConfiguration:
    # Ours.
    overrideLambda: parser.py
idleSessionTTLInSeconds: 60
"""
    ) == snapshot(
        """\
promptOverrideConfiguration:
    promptConfigurations:
      - promptType: ORCHESTRATION
        promptCreationMode: OVERRIDDEN
        promptState: ENABLED
        basePromptTemplateFile: templates/orchestration.json
    # Ours.
    overrideLambda: parser.py
idleSessionTTLInSeconds: 60
"""
    )


@pytest.mark.parametrize("indent", ["", "  ", "      "])
def test_other_stages(indent):
    changed = change(
        "prompt_override_configuration:\n"
        "  prompt_configurations:  # all of them\n"
        f"{indent}  # The gate.\n"
        f"{indent}  - promptType: PRE_PROCESSING  # off\n"
        f"{indent}    promptState: DISABLED\n"
        "foundationModel: local\n"
    )
    assert changed == (
        "prompt_override_configuration:\n"
        "  prompt_configurations:  # all of them\n"
        f"{indent}  - promptType: ORCHESTRATION\n"
        f"{indent}    promptCreationMode: OVERRIDDEN\n"
        f"{indent}    promptState: ENABLED\n"
        f"{indent}    basePromptTemplateFile: templates/orchestration.json\n"
        f"{indent}  # The gate.\n"
        f"{indent}  - promptType: PRE_PROCESSING  # off\n"
        f"{indent}    promptState: DISABLED\n"
        "foundationModel: local\n"
    )


def test_the_stage_itself():
    assert change(
        """\
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: PRE_PROCESSING
      promptState: DISABLED
    - prompt_state: "DISABLED"  # for now
      promptType: ORCHESTRATION  # the loop
      promptCreationMode: DEFAULT
      inferenceConfiguration: {temperature: 0.5}
"""
    ) == snapshot(
        """\
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: PRE_PROCESSING
      promptState: DISABLED
    - prompt_state: ENABLED  # for now
      promptType: ORCHESTRATION  # the loop
      basePromptTemplateFile: templates/orchestration.json
      promptCreationMode: OVERRIDDEN
      inferenceConfiguration: {temperature: 0.5}
"""
    )


def test_the_same_again_changes_nothing():
    once = change("")
    assert change(once) == once


@pytest.mark.parametrize(
    "rest",
    [
        "promptOverrideConfiguration: {promptConfigurations: [{promptType: PRE_PROCESSING}]}\n",
        "promptOverrideConfiguration: {promptConfigurations: [{promptType: ORCHESTRATION}]}\n",
        "promptOverrideConfiguration:\n  promptConfigurations: []\n",
        "promptOverrideConfiguration:\n  promptConfigurations:\n"
        "    - {promptType: ORCHESTRATION, promptState: DISABLED}\n",
        "promptOverrideConfiguration: null\n",
        "...\n",
    ],
)
def test_what_is_written_in_another_way_is_left(rest):
    assert name_template(HEAD + rest, "agent.yaml", "ORCHESTRATION", "templates/o.json") is None


def test_a_definition_in_braces_is_left():
    text = "{agentName: a, instruction: You help.}\n"
    assert name_template(text, "agent.yaml", "ORCHESTRATION", "templates/o.json") is None


def test_an_anchor_that_others_share_is_left():
    text = (
        HEAD + "promptOverrideConfiguration:\n  promptConfigurations:\n"
        "    - &all\n      promptType: ORCHESTRATION\n      promptState: &off DISABLED\n"
        "    - promptType: PRE_PROCESSING\n      promptState: *off\n"
    )
    assert name_template(text, "agent.yaml", "ORCHESTRATION", "templates/o.json") is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_json(wrapped):
    agent = {"agentName": "a", "instruction": "You help."}
    text = json.dumps({"agent": agent} if wrapped else agent)
    changed = name_template(text, "agent.json", "ORCHESTRATION", "templates/o.json")
    data = json.loads(changed)
    (prompt,) = (data["agent"] if wrapped else data)["promptOverrideConfiguration"][
        "promptConfigurations"
    ]
    assert prompt["basePromptTemplateFile"] == "templates/o.json"


def test_a_wrong_definition_is_an_error():
    with pytest.raises(DefinitionError):
        name_template("agentName: 7\n", "agent.yaml", "ORCHESTRATION", "templates/o.json")
