"""The code of Lambda functions in templates of CloudFormation, SAM and the CDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.transfer import Document, read_source

CODE = "def handler(event, context):\n    return {}\n"


def read(tmp_path: Path, function: dict[str, Any], **more: Any) -> Document:
    """The agent of a template with one function, whose code is in `src`."""
    group = {
        "ActionGroupName": "g",
        "ActionGroupExecutor": {"Lambda": more.pop("Lambda", {"Fn::GetAtt": ["F", "Arn"]})},
        "FunctionSchema": {"Functions": [{"Name": "f"}]},
    }
    agent = {"AgentName": "a", "ActionGroups": [group], **more.pop("Agent", {})}
    resources = {"A": {"Type": "AWS::Bedrock::Agent", "Properties": agent}, "F": function}
    template = {"Resources": {**resources, **more.pop("Resources", {})}, **more}
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src" / "app.py").write_text(CODE)
    (tmp_path / "template.json").write_text(json.dumps(template, indent=1))
    [document] = read_source(tmp_path / "template.json").agents.values()
    return document


def executor(document: Document) -> str:
    return str(document.data["actionGroups"][0]["actionGroupExecutor"]["lambda"])


def serverless(**properties: Any) -> dict[str, Any]:
    own = {"CodeUri": "src", "Handler": "app.handler", "Runtime": "python3.13", **properties}
    return {
        "Type": "AWS::Serverless::Function",
        "Properties": {name: it for name, it in own.items() if it is not None},
    }


def plain(**properties: Any) -> dict[str, Any]:
    own = {"Handler": "app.handler", "Runtime": "python3.13", **properties}
    return {"Type": "AWS::Lambda::Function", "Properties": own}


CODED: list[tuple[dict[str, Any], str]] = [
    (serverless(), "functions/F/app.py:handler"),
    (serverless(CodeUri="./src/"), "functions/F/app.py:handler"),
    (serverless(FunctionName="name"), "functions/name/app.py:handler"),
    (serverless(CodeUri="src/app.py"), "functions/F/app.py:handler"),
    (serverless(CodeUri=None, InlineCode=CODE, Handler="i.handler"), "functions/F/i.py:handler"),
    (serverless(CodeUri=".", Handler="src/app.handler"), "functions/F/src_app_entry.py:handler"),
    (plain(Code={"ZipFile": CODE}, Handler="index.handler"), "functions/F/index.py:handler"),
    (plain(Code="src"), "functions/F/app.py:handler"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "spec"), CODED)
def test_code_comes_along(function: dict[str, Any], spec: str, tmp_path: Path) -> None:
    document = read(tmp_path, function)
    assert executor(document) == spec
    assert document.code[spec.rpartition(":")[0]]
    assert document.notes == []


KEPT: list[tuple[dict[str, Any], str]] = [
    (serverless(Runtime="nodejs22.x"), "it runs nodejs22.x, and handlers here are Python"),
    (serverless(CodeUri={"Bucket": "b", "Key": "k.zip"}), "its code is in Amazon S3"),
    (serverless(CodeUri="s3://b/k.zip"), "its code is in Amazon S3"),
    (serverless(PackageType="Image"), "it is a container image"),
    (plain(Code={"ImageUri": "1.dkr.ecr.eu-west-1.amazonaws.com/x"}), "it is a container image"),
    (serverless(Handler="other.handler"), "its handler 'other.handler' is in no file of its code"),
    (serverless(CodeUri="nothing"), "there is no code at 'nothing'"),
    (serverless(CodeUri="../x"), "'../x' leads out of"),
]


@pytest.mark.parametrize(("function", "reason"), KEPT)
def test_code_that_cannot_run_here_is_named(
    function: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    document = read(tmp_path, function)
    assert executor(document) == "arn:aws:lambda:us-east-1:000000000000:function:F"
    [one] = document.notes
    assert one.code == "code" and reason in one.message
    text = (tmp_path / "template.json").read_text().splitlines()
    assert '"F": {' in text[(one.line or 0) - 1]


def test_an_alias_of_a_function_is_the_function(tmp_path: Path) -> None:
    alias = {
        "Type": "AWS::Lambda::Alias",
        "Properties": {"Name": "live", "FunctionName": {"Ref": "F"}},
    }
    document = read(tmp_path, serverless(), Lambda={"Ref": "Live"}, Resources={"Live": alias})
    assert executor(document) == "functions/F/app.py:handler"


def test_globals_and_layers(tmp_path: Path) -> None:
    own = serverless(
        Handler=None,
        Runtime=None,
        Layers=[{"Ref": "Tools"}],
        Environment={"Variables": {"A": 1, "B": {"Ref": "AWS::Region"}, "ON": True}},
    )
    shared = {
        "Handler": "app.handler",
        "Runtime": "python3.13",
        "Environment": {"Variables": {"A": 0, "C": "c"}},
    }
    document = read(tmp_path, own, Globals={"Function": shared})
    [group] = document.data["actionGroups"]
    assert group["environment"] == {"A": "1", "C": "c", "B": "us-east-1", "ON": "true"}
    assert "the layers of F are not copied" in document.notes[-1].message


def test_variables_that_only_a_deployment_knows_are_named(tmp_path: Path) -> None:
    variables = {"TABLE": {"Ref": "Table"}, "REGION": {"Ref": "AWS::Region"}, "NAME": "books"}
    shared = {"Environment": {"Variables": {"TOPIC": {"Ref": "Topic"}, "NAME": {"Ref": "Topic"}}}}
    resources = {
        "Table": {"Type": "AWS::DynamoDB::Table"},
        "Topic": {"Type": "AWS::SNS::Topic"},
    }
    document = read(
        tmp_path,
        serverless(Environment={"Variables": variables}),
        Globals={"Function": shared},
        Resources=resources,
    )
    [one] = [it for it in document.notes if it.code == "environment"]
    assert one.message == "F reads TOPIC, TABLE: the sources do not tell what they are"
    assert one.suggestion == "set them in the group's `environment` in agent.yaml"
    text = (tmp_path / "template.json").read_text().splitlines()
    assert '"F": {' in text[(one.line or 0) - 1]


def test_a_parser_comes_along(tmp_path: Path) -> None:
    stage = {"PromptType": "ORCHESTRATION", "ParserMode": "OVERRIDDEN"}
    overrides = {
        "PromptConfigurations": [{**stage, "BasePromptTemplate": "x $question$"}],
        "OverrideLambda": {"Fn::GetAtt": ["F", "Arn"]},
    }
    document = read(tmp_path, serverless(), Agent={"PromptOverrideConfiguration": overrides})
    part = document.data["promptOverrideConfiguration"]
    assert part["overrideLambda"] == "functions/F/app.py:handler"
    assert [*document.code] == ["functions/F/app.py"]  # one function, named twice


def test_stacks_of_an_app_import_from_each_other(tmp_path: Path) -> None:
    out = tmp_path / "cdk.out"
    (out / "asset.1").mkdir(parents=True)
    (out / "asset.1" / "app.py").write_text(CODE)
    (out / "manifest.json").write_text("{}")
    arn = {"Value": {"Fn::GetAtt": ["F", "Arn"]}, "Export": {"Name": "Code:Arn"}}
    function = {**plain(Code={}), "Metadata": {"aws:asset:path": "asset.1"}}
    code = {"Resources": {"F": function}, "Outputs": {"Arn": arn}}
    group = {
        "ActionGroupName": "g",
        "ActionGroupExecutor": {"Lambda": {"Fn::ImportValue": "Code:Arn"}},
        "FunctionSchema": {"Functions": [{"Name": "f"}]},
    }
    agent = {"AgentName": "a", "ActionGroups": [group]}
    agents = {"Resources": {"A": {"Type": "AWS::Bedrock::Agent", "Properties": agent}}}
    (out / "Code.template.json").write_text(json.dumps(code))
    (out / "assembly-Live").mkdir()
    (out / "assembly-Live" / "Agents.template.json").write_text(json.dumps(agents))
    [document] = read_source(tmp_path).agents.values()
    assert executor(document) == "functions/F/app.py:handler"


def test_a_schema_in_a_folder_that_the_cdk_deploys_comes_along(tmp_path: Path) -> None:
    out = tmp_path / "cdk.out"
    (out / "asset.1" / "v1").mkdir(parents=True)
    schema = json.dumps({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {}})
    (out / "asset.1" / "v1" / "loans.json").write_text(schema)
    (out / "manifest.json").write_text("{}")
    files = {"1": {"source": {"path": "asset.1"}, "destinations": {"d": {"objectKey": "1.zip"}}}}
    (out / "Town.assets.json").write_text(json.dumps({"files": files}))
    deployment = {
        "Type": "Custom::CDKBucketDeployment",
        "Properties": {
            "SourceObjectKeys": ["none.zip", "1.zip"],
            "DestinationBucketName": {"Ref": "Schemas"},
            "DestinationBucketKeyPrefix": "api",
            "DestinationBucketArn": {"Fn::GetAtt": ["Schemas", "Arn"]},
        },
    }
    # As the CDK names the bucket of a deployment: the sixth part of its ARN.
    arn = {"Fn::GetAtt": ["Deployment", "DestinationBucketArn"]}
    bucket = {"Fn::Select": [5, {"Fn::Split": [":", arn]}]}
    group = {
        "ActionGroupName": "g",
        "ActionGroupExecutor": {"CustomControl": "RETURN_CONTROL"},
        "ApiSchema": {"S3": {"S3BucketName": bucket, "S3ObjectKey": "api/v1/loans.json"}},
    }
    agent = {"AgentName": "a", "ActionGroups": [group]}
    resources = {
        "A": {"Type": "AWS::Bedrock::Agent", "Properties": agent},
        "Schemas": {"Type": "AWS::S3::Bucket"},
        "Deployment": deployment,
    }
    (out / "Town.template.json").write_text(json.dumps({"Resources": resources}))
    [document] = read_source(tmp_path).agents.values()
    assert document.data["actionGroups"][0]["apiSchema"] == {"payload": schema}
    assert document.notes == []
