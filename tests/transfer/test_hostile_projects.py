"""Projects that somebody made to hang the import, to read other files or to write elsewhere."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from town import PROJECTS

from orchestrator.errors import DefinitionError, OrchestratorError, ValidationError
from orchestrator.transfer import files_of, read_source, write_files
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.terraform.hcl import parse_hcl

AGENT = 'resource "aws_bedrockagent_agent" "a" {\n  agent_name = "a"\n  %s\n}\n'
FUNCTION = """
resource "aws_lambda_function" "f" {
  function_name = "f"
  filename      = "%s"
  handler       = "app.handler"
  runtime       = "python3.12"
}
resource "aws_bedrockagent_agent_action_group" "g" {
  agent_id          = aws_bedrockagent_agent.a.agent_id
  action_group_name = "g"
  action_group_executor { lambda = aws_lambda_function.f.arn }
}
"""


def read(folder: Path, text: str, name: str = "main.tf") -> object:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return read_source(folder)


def test_files_outside_of_the_project_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for name in (
        "../secret.txt",
        "/etc/passwd",
        "${path.module}/../secret.txt",
        "link.txt",
        "a\\u0000b",
    ):
        found = read(folder, AGENT % f'instruction = file("{name}")')
        [document] = found.agents.values()  # type: ignore[attr-defined]
        assert "instruction" not in document.data
        [one] = document.notes
        assert "cannot be read" in one.message and one.line == 3


@pytest.mark.parametrize("path", ["../code", "/etc", "link", "..", "code.zip", "nothing"])
def test_code_outside_of_the_project_stays_there(path: str, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "app.py").write_text("def handler(event, context): ...")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link").symlink_to(code)
    with zipfile.ZipFile(folder / "code.zip", "w") as archive:
        archive.writestr("../../evil.py", "x = 1")
    found = read(folder, AGENT % "" + FUNCTION % path)
    [document] = found.agents.values()  # type: ignore[attr-defined]
    assert document.code == {}
    executor = document.data["actionGroups"][0]["actionGroupExecutor"]["lambda"]
    assert executor.startswith("arn:aws:lambda:")
    [one] = document.notes
    assert one.code == "code" and one.suggestion


def test_links_in_a_functions_folder_are_left(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("PASSWORD = 1")
    code = tmp_path / "project" / "code"
    code.mkdir(parents=True)
    (code / "app.py").write_text("def handler(event, context): ...")
    (code / "stolen.py").symlink_to(tmp_path / "secret.py")
    (code / "more").symlink_to(tmp_path)
    (code / "data.bin").write_bytes(b"\xff\xfe\x00")
    found = read(tmp_path / "project", AGENT % "" + FUNCTION % "code")
    [document] = found.agents.values()  # type: ignore[attr-defined]
    assert [*document.code] == ["functions/f/app.py"]
    assert "data.bin: no text" in document.notes[-1].message


def test_a_folder_that_is_no_functions_own_code_stays(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for number in range(501):
        (code / f"m{number}.py").touch()
    found = read(tmp_path, AGENT % "" + FUNCTION % "code")
    [document] = found.agents.values()  # type: ignore[attr-defined]
    assert "more than 500 files" in document.notes[0].message


HANGING = [
    "a = " + "[" * 100_000,
    "a = " + "(" * 5_000 + "1" + ")" * 5_000,
    'a = "' + '${"' * 10_000,
    "a = <<A\n" + "\n" * 400_000,
    "a = <<A\n" + " \n" * 200_000 + "B\n",
    "/*" * 200_000,
    '"' * 400_001,
    "a = 1 " + "+ 1" * 2_000,
    "a = b" + ".c" * 4_000,
    "a = x[0" + "[0" * 50_000,
    "a = " + "-" * 100_000 + "1",
    "a {" * 10_000,
    "x" * 600_000,
    "a = [\n" + "1,\n" * 60_000 + "]\n",
    "a = <<A\n${\nA\n",
]


@pytest.mark.parametrize("text", HANGING, ids=lambda it: it[:12].encode().hex())
def test_sources_without_end_are_refused(text: str, tmp_path: Path) -> None:
    try:
        read(tmp_path, text + "\n" + AGENT % "description = local.x")
    except OrchestratorError as error:
        assert isinstance(error, DefinitionError | ValidationError)
    else:
        # A long expression is no harm until it is worked out.
        assert "+ 1" in text or ".c" in text


LOOPS = [
    "locals {\n a = local.b\n b = local.a\n}\n" + AGENT % "description = local.a",
    'locals { a = "${local.a}x" }\n' + AGENT % "description = local.a",
    "locals { a = " + "1 + " * 500 + "1 }\n" + AGENT % "description = local.a",
    'module "m" { source = "./." }\n' + AGENT % "",
    AGENT % "description = aws_bedrockagent_agent.a.description",
    'locals {\n a0 = "xxxxxxxxxx"\n'
    + "".join(f' a{n} = "${{local.a{n - 1}}}${{local.a{n - 1}}}"\n' for n in range(1, 40))
    + "}\n" + AGENT % "description = local.a39",
    "locals {\n a0 = [1, 2]\n"
    + "".join(f" a{n} = [local.a{n - 1}, local.a{n - 1}]\n" for n in range(1, 40))
    + "}\n" + AGENT % "description = jsonencode(local.a39)",
    'locals {\n k = "' + "k" * 100_000 + '"\n a0 = { (local.k) = 1 }\n'
    + "".join(f" a{n} = [{', '.join([f'local.a{n - 1}'] * 100)}]\n" for n in (1, 2))
    + "}\n" + AGENT % "description = jsonencode(local.a2)",
    "locals {\n a0 = [1, 1]\n"
    + "".join(f" a{n} = [local.a{n - 1}, local.a{n - 1}]\n" for n in range(1, 25))
    + "}\n" + AGENT % f"description = length(local.a24{'[*]' * 25})",
    pytest.param(
        "locals {\n a = [[" + ", ".join(["range(0, 1000)"] * 150) + "]]\n}\n"
        + AGENT % "description = [for i in range(0, 1000) : length(local.a)]",
        marks=pytest.mark.exhaustive,
    ),
    'resource "aws_bedrockagent_agent" "a" {\n count = 100000\n agent_name = "a"\n}\n',
    pytest.param(
        AGENT % 'description = [for a in range(999) : [for b in range(999) : a]]',
        marks=pytest.mark.exhaustive,
    ),
]  # fmt: skip


@pytest.mark.parametrize("bounds", ["-999999999, 0", "0, -999999999, -1", "0, 1025"])
def test_a_range_without_end_is_not_made(bounds: str, tmp_path: Path) -> None:
    found = read(tmp_path, AGENT % f"description = length(range({bounds}))")
    [document] = found.agents.values()  # type: ignore[attr-defined]
    assert "description" not in document.data


@pytest.mark.parametrize("text", LOOPS, ids=map(str, range(len(LOOPS))))
def test_values_without_end_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        read(tmp_path, text)
    assert (
        "without end" in str(caught.value)
        or "than" in str(caught.value)
        or ("too" in str(caught.value))
    )


def test_a_project_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.transfer.project_files.MOST_FILES", 50)
    for number in range(60):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(DefinitionError, match="more than 50 files"):
        read_source(tmp_path)


def test_folders_of_tools_are_not_looked_into(tmp_path: Path) -> None:
    for name in ("node_modules", ".terraform", ".venv", ".git"):
        (tmp_path / "a" / name).mkdir(parents=True)
        (tmp_path / "a" / name / "main.tf").write_text(AGENT % "")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "env" / "lib").mkdir(parents=True)
    (tmp_path / "a" / "env" / "pyvenv.cfg").touch()
    assert [*ProjectFiles(tmp_path).iter_files()] == []


def test_a_folder_of_environments_is_none_of_python(tmp_path: Path) -> None:
    folder = tmp_path / "env" / "dev"
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(AGENT % "")
    assert len(read_source(tmp_path).agents) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_does_not_hold_up_the_import(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tf")
    os.mkfifo(tmp_path / "pipe.json")
    found = read(tmp_path, AGENT % "")
    assert len(found.agents) == 1  # type: ignore[attr-defined]


def test_an_agent_that_is_larger_than_a_definition_is_refused(tmp_path: Path) -> None:
    agent = {"AgentName": "a", "Instruction": "z" * 2_100_000}
    template = {"Resources": {"A": {"Type": "AWS::Bedrock::Agent", "Properties": agent}}}
    (tmp_path / "template.json").write_text(json.dumps(template))
    with pytest.raises(DefinitionError, match="larger than 2,000,000 bytes"):
        read_source(tmp_path)


def test_data_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    text = '{"agentName": "a", "x": ' + "[" * 500 + "]" * 500 + "}"
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DefinitionError, match="nested too deeply"):
        read_source(tmp_path / "a.json")


def test_an_asset_cannot_lead_out_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("openapi: 3.0.0")
    out = tmp_path / "app" / "cdk.out"
    out.mkdir(parents=True)
    s3 = {"S3BucketName": "b-123", "S3ObjectKey": "k.yaml"}
    group = {
        "ActionGroupName": "g",
        "ActionGroupExecutor": {"CustomControl": "RETURN_CONTROL"},
        "ApiSchema": {"S3": s3},
    }
    agent = {"AgentName": "a", "ActionGroups": [group]}
    template = {"Resources": {"A": {"Type": "AWS::Bedrock::Agent", "Properties": agent}}}
    source = {"path": "../../secret.yaml", "packaging": "file"}
    asset = {"source": source, "destinations": {"here": {"objectKey": "k.yaml"}}}
    (out / "manifest.json").write_text("{}")
    (out / "T.template.json").write_text(json.dumps(template))
    (out / "T.assets.json").write_text(json.dumps({"files": {"k": asset}}))
    [document] = read_source(tmp_path / "app").agents.values()
    assert "s3" in document.data["actionGroups"][0]["apiSchema"]


MAIN = (PROJECTS / "terraform" / "main.tf").read_text()
PIECES = st.sampled_from(
    [
        *('"', "${", "}", "{", "<<E\n", "\nE\n", "=", "[", "]", "#", "/*", "*/", "\n", "\\", "%{"),
        *("for x in y : x", "local.a", "var.x", "each.value", "null", "9" * 50, "[*]", "...", "é"),
        *("aws_bedrockagent_agent.library", "jsonencode(", "file(", ")", "?", ":", "\0", "\u2028"),
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(MAIN)), st.integers(0, 30), PIECES), max_size=4))
def test_whatever_a_source_says_it_is_agents_or_an_error(edits: list[tuple[int, int, str]]) -> None:
    text = MAIN
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.tf").write_text(text)
        try:
            for document in read_source(folder).agents.values():
                files = files_of(document)
                assert all(".." not in it and not it.startswith("/") for it in files)
                write_files(files, folder / "agents" / "one", force=True)
        except (DefinitionError, ValidationError) as error:
            assert error.message


texts = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r"), max_size=60)


@given(texts)
def test_a_heredoc_is_what_it_says(text: str) -> None:
    """Whatever stands in a heredoc is its text, but for what begins templates."""
    lines = [it for it in text.replace("${", "").replace("%{", "").split("\n") if it.strip() != "E"]
    body = "\n".join(lines)
    block = parse_hcl(f"a = <<E\n{body}\nE\nb = 1\n", "x.tf")
    from orchestrator.transfer.terraform.hcl_evaluate import Budget, Evaluator

    class Nothing:
        look_up = call = assume = None

    evaluator = Evaluator(Nothing(), Budget())  # type: ignore[arg-type]
    assert evaluator.evaluate(block.attributes["a"].node) == body + "\n"
    assert block.attributes["b"].line == body.count("\n") + 4


def test_a_template_outside_of_an_app_is_not_read(tmp_path: Path) -> None:
    agent = {"Type": "AWS::Bedrock::Agent", "Properties": {"AgentName": "theirs"}}
    (tmp_path / "theirs.json").write_text(json.dumps({"Resources": {"A": agent}}))
    folder = tmp_path / "project" / "cdk.out"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "a.template.json").symlink_to(tmp_path / "theirs.json")
    with pytest.raises(ValidationError, match="holds no agent"):
        read_source(tmp_path / "project")
