"""Files that a definition names: found, confined, read."""

from pathlib import Path

import pytest

from orchestrator.definition import load_definition, parse_definition, prompt_text
from orchestrator.errors import DefinitionError

PROMPT = """
agentName: a
promptOverrideConfiguration:
  promptConfigurations:
    - promptType: ORCHESTRATION
      basePromptTemplateFile: %s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agent = tmp_path / "agent"
    (agent / "templates").mkdir(parents=True)
    (agent / "templates" / "loop.txt").write_text("\ufeff$instruction$ ü", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret")
    return agent


def write(folder: Path, name: str) -> Path:
    (folder / "agent.yaml").write_text(PROMPT % name, encoding="utf-8")
    return folder


def test_a_template_in_a_file(folder: Path) -> None:
    definition = load_definition(write(folder, "templates/loop.txt"))
    found = prompt_text(definition, "ORCHESTRATION")
    assert found is not None
    assert found.text == "$instruction$ ü"
    assert Path(found.source) == (folder / "templates" / "loop.txt").resolve()
    assert prompt_text(definition, "POST_PROCESSING") is None


def test_a_template_in_the_definition() -> None:
    text = (PROMPT % "x").replace("File: x", ": $question$")
    found = prompt_text(parse_definition(text, file="claims.yaml"), "ORCHESTRATION")
    assert found is not None
    assert (found.text, found.source) == ("$question$", "claims.yaml (ORCHESTRATION)")


def test_a_template_in_default_mode_is_not_used() -> None:
    text = (PROMPT % "x").replace("File: x", ": x\n      promptCreationMode: DEFAULT")
    assert prompt_text(parse_definition(text), "ORCHESTRATION") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../secret.txt", "leads out of the folder with '..'"),
        ("templates/../../secret.txt", "leads out of the folder with '..'"),
        ("/etc/passwd", "is an absolute path"),
        ("C:/secret.txt", "is an absolute path"),
        ("'..\\secret.txt'", "has a backslash; write / instead"),
        ('"\\0"', "is no file's name"),
        ("' '", "is no file's name"),
        ("link.txt", "links to a place outside of the agent's folder; copy it in"),
        ("linked/secret.txt", "links to a place outside of the agent's folder; copy it in"),
        ("templates", "is a folder; name a file"),
        ("templates/lop.txt", "did you mean 'templates/loop.txt'?"),
        ("nowhere/at/all.txt", "there is no file 'nowhere/at/all.txt' in the agent's folder"),
    ],
)
def test_a_file_that_cannot_be_used(folder: Path, name: str, message: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent)
    with pytest.raises(DefinitionError) as caught:
        load_definition(write(folder, name))
    error = caught.value
    assert message in str(error)
    assert (error.file, error.line, error.column) == (str(folder / "agent.yaml"), 6, 31)


def test_links_inside_of_the_folder_are_followed(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder / "templates" / "loop.txt")
    assert prompt_text(load_definition(write(folder, "link.txt")), "ORCHESTRATION")


def test_one_error_names_all_missing_files(folder: Path) -> None:
    (folder / "agent.yaml").write_text(
        """
agentName: a
actionGroups:
  - actionGroupName: api
    apiSchema: {file: openapi.yaml}
    actionGroupExecutor: {lambda: "handler.py:main"}
  - actionGroupName: python
    actionGroupExecutor: {python: actions.py}
  - actionGroupName: remote
    actionGroupExecutor: {lambda: "arn:aws:lambda:us-east-1:123456789012:function:f"}
"""
    )
    with pytest.raises(DefinitionError) as caught:
        load_definition(folder)
    assert [(it.line, it.message) for it in caught.value.diagnostics] == [
        (5, "there is no file 'openapi.yaml' in the agent's folder"),
        (6, "there is no file 'handler.py' in the agent's folder"),
        (8, "there is no file 'actions.py' in the agent's folder"),
    ]


def test_a_file_that_vanished_after_loading(folder: Path) -> None:
    definition = load_definition(write(folder, "templates/loop.txt"))
    (folder / "templates" / "loop.txt").unlink()
    with pytest.raises(DefinitionError, match=r"agent\.yaml:6:31: there is no file"):
        prompt_text(definition, "ORCHESTRATION")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a template has 1 to 100,000 characters, not 0"),
        (b"x" * 100_001, "a template has 1 to 100,000 characters, not 100,001"),
        (b"x" * 400_001, "the file is larger than 400,000 bytes; split it"),
        (b"ok\nno\xff", "loop.txt:2:3: byte 0xFF is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_template_file_with_wrong_content(folder: Path, content: bytes, message: str) -> None:
    (folder / "templates" / "loop.txt").write_bytes(content)
    with pytest.raises(DefinitionError) as caught:
        prompt_text(load_definition(write(folder, "templates/loop.txt")), "ORCHESTRATION")
    assert message in str(caught.value)


def test_an_agents_file_that_is_too_large_or_not_text(folder: Path) -> None:
    (folder / "agent.yaml").write_bytes(b"#" * 2_000_001)
    with pytest.raises(DefinitionError, match="larger than 2,000,000 bytes"):
        load_definition(folder)
    (folder / "agent.yaml").write_bytes("agentName: é".encode("latin-1"))
    with pytest.raises(DefinitionError, match=r"agent\.yaml:1:12: byte 0xE9 is not UTF-8"):
        load_definition(folder)


def test_files_without_a_folder() -> None:
    with pytest.raises(DefinitionError, match="relative to an agent's folder, and there is none"):
        prompt_text(parse_definition(PROMPT % "x.txt"), "ORCHESTRATION")


MEMBERS = """
agentName: a
promptOverrideConfiguration: {overrideLambda: "parser.py:parse"}
guardrailConfiguration: {file: guardrail.yaml}
knowledgeBases: [{knowledgeBaseId: rules, folder: rules}]
agentCollaborators:
  - {collaboratorName: bills, agentDescriptor: {folder: %s}}
  - {collaboratorName: remote, agentDescriptor: {aliasArn: arn}}
"""


def furnished(folder: Path, collaborator: str = "bills") -> Path:
    for name in ("bills", "rules"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("parser.py", "guardrail.yaml"):
        (folder / name).touch()
    (folder / "agent.yaml").write_text(MEMBERS % collaborator)
    return folder


def test_parsers_guardrails_documents_and_collaborators_are_looked_for(folder: Path) -> None:
    load_definition(furnished(folder))
    for name in ("bills", "rules"):
        (folder / name).rmdir()
    for name in ("parser.py", "guardrail.yaml"):
        (folder / name).unlink()
    with pytest.raises(DefinitionError) as caught:
        load_definition(folder)
    assert [(it.line, it.column, it.message) for it in caught.value.diagnostics] == [
        (3, 47, "there is no file 'parser.py' in the agent's folder"),
        (4, 32, "there is no file 'guardrail.yaml' in the agent's folder"),
        (5, 51, "there is no folder 'rules' in the agent's folder"),
        (7, 57, "there is no folder 'bills' in the agent's folder"),
    ]


def test_a_parser_in_aws_is_no_file(folder: Path) -> None:
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:parse"
    text = f"agentName: a\npromptOverrideConfiguration: {{overrideLambda: '{arn}'}}\n"
    (folder / "agent.yaml").write_text(text)
    assert load_definition(folder).prompt_override_configuration is not None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../other", "'../other' leads out of the folder with '..'"),
        ("bills/../../other", "leads out of the folder with '..'"),
        ("/etc", "'/etc' is an absolute path"),
        ("'C:'", "'C:' is an absolute path"),
        ("outside", "'outside' links to a place outside of the agent's folder; copy it in"),
        (".", "'.' is the agent's own folder; name one inside of it"),
        ("itself", "'itself' is the agent's own folder; name one inside of it"),
        ("agent.yaml", "'agent.yaml' is a file; name a folder"),
        ("bill", "there is no folder 'bill' in the agent's folder; did you mean 'bills'?"),
        ("''", "'' is no file's name"),
    ],
)
def test_a_folder_that_cannot_be_used(folder: Path, name: str, message: str) -> None:
    (folder / "outside").symlink_to(folder.parent)
    (folder / "itself").symlink_to(folder)
    with pytest.raises(DefinitionError) as caught:
        load_definition(furnished(folder, name))
    error = caught.value
    assert message in error.reason
    assert (error.file, error.line, error.column) == (str(folder / "agent.yaml"), 7, 57)
