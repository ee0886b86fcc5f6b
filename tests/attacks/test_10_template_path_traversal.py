"""Attack 10: names of files that lead out of the agent's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_agents import XML, Calls, agent

from orchestrator import Agent, DefinitionError, TemplateError

SECRET = "the secret of another folder"
BODY = {"system": SECRET, "messages": [{"role": "user", "content": "$question$"}]}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """An agent's folder, with a secret beside it."""
    (tmp_path / "secret.json").write_text(json.dumps(BODY))
    (tmp_path / "handler.py").write_text("def lambda_handler(event, context):\n    return {}\n")
    folder = tmp_path / "bundle"
    (folder / "templates" / "mine").mkdir(parents=True)
    return folder


def names(bundle: Path) -> list[str]:
    return [
        "../secret.json",
        "../../secret.json",
        "templates/../../secret.json",
        str(bundle.parent / "secret.json"),
        "file:///etc/passwd",
        "..\\secret.json",
        "link.json",
        "templates/link.json",
        "linked/secret.json",
        "\0",
    ]


def link(bundle: Path) -> None:
    (bundle / "link.json").symlink_to(bundle.parent / "secret.json")
    (bundle / "templates" / "link.json").symlink_to(bundle.parent / "secret.json")
    (bundle / "templates" / "mine" / "link.json").symlink_to(bundle.parent / "secret.json")
    (bundle / "linked").symlink_to(bundle.parent)


def refused(bundle: Path, yaml: str) -> None:
    (bundle / "agent.yaml").write_text(yaml)
    with pytest.raises(DefinitionError) as caught:
        Agent.load(bundle, model=XML.model([]))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("index", range(10))
def test_a_template_of_a_definition(bundle: Path, index: int) -> None:
    link(bundle)
    name = json.dumps(names(bundle)[index])
    refused(
        bundle,
        "agentName: a\ninstruction: You help.\npromptOverrideConfiguration:\n"
        "  promptConfigurations:\n    - promptType: ORCHESTRATION\n"
        f"      promptCreationMode: OVERRIDDEN\n      basePromptTemplateFile: {name}\n",
    )


@pytest.mark.parametrize("index", range(10))
def test_a_handler_and_a_schema_of_a_definition(bundle: Path, index: int) -> None:
    link(bundle)
    name = names(bundle)[index].replace("secret.json", "handler.py")
    functions = "functionSchema: {functions: [{name: f, description: d}]}"
    group = "agentName: a\ninstruction: You help.\nactionGroups:\n  - actionGroupName: g\n    "
    executor = json.dumps({"lambda": name})
    refused(bundle, f"{group}{functions}\n    actionGroupExecutor: {executor}\n")
    schema = json.dumps({"file": names(bundle)[index]})
    returned = "actionGroupExecutor: {customControl: RETURN_CONTROL}"
    refused(bundle, f"{group}apiSchema: {schema}\n    {returned}\n")


@pytest.mark.parametrize("index", range(10))
def test_a_template_of_a_dialect(bundle: Path, index: int) -> None:
    link(bundle)
    templates = bundle / "templates"
    (templates / "mine" / "dialect.yaml").write_text(
        "protocol: xml\nparser: xml\nstages:\n"
        f"  ORCHESTRATION: {{template: {json.dumps(names(bundle)[index])}, enabled: true}}\n"
    )
    with pytest.raises(TemplateError) as caught:
        agent(XML.model([]), templates=templates, dialect="mine")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["..", ".", "../mine", "/etc", "mine/../..", "\0", "a b"])
def test_a_dialect_s_own_name(bundle: Path, name: str) -> None:
    with pytest.raises(TemplateError):
        agent(XML.model([]), templates=bundle / "templates", dialect=name)


@pytest.mark.parametrize("file", ["tools.j2", "orchestration.json", "claude-3/tools.j2"])
def test_links_in_the_templates_folder_are_not_followed_outside(bundle: Path, file: str) -> None:
    place = bundle / "templates" / file
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(bundle.parent / "secret.json")
    with pytest.raises(TemplateError, match="link to outside") as caught:
        agent(XML.model([]), Calls().groups(), templates=bundle / "templates")
    assert SECRET not in str(caught.value)
