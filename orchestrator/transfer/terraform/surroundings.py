"""What stands beside agents among the resources of Terraform: functions, guardrails, objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.transfer.build_document import as_mapping, list_mappings
from orchestrator.transfer.function_code import FunctionCode, read_variables
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.surroundings import GuardrailSource, Surroundings
from orchestrator.transfer.terraform.resources import Resource
from orchestrator.transfer.unknown_values import make_placeholder_id

_FUNCTION = "aws_lambda_function"
_GUARDRAILS = ("aws_bedrock_guardrail", "awscc_bedrock_guardrail")
_OBJECTS = ("aws_s3_object", "aws_s3_bucket_object")


def find_surroundings(
    resources: Sequence[Resource], files: ProjectFiles, folder: Path
) -> Surroundings:
    """What of the resources agents may name; paths in them are relative to `folder`."""
    found = Surroundings(files)
    for it in resources:
        if it.kind == _FUNCTION and it.mode == "managed":
            code = _read_function(it, resources, folder)
            for arn in (it.values.get("arn"), _make_arn(it)):
                found.functions[str(arn)] = code
        elif it.kind in _GUARDRAILS:
            source = GuardrailSource(it.values, it.file, it.line)
            for id in (*_iter_ids(it.values), make_placeholder_id(it.name).lower()):
                found.guardrails[id] = source
        elif it.kind in _OBJECTS:
            with suppress(DefinitionError):
                text = _read_object(it.values, files, folder)
                found.objects[str(it.values.get("bucket")), str(it.values.get("key"))] = text
    return found


def _make_arn(function: Resource) -> str:
    name = function.values.get("function_name") or function.name
    return f"arn:aws:lambda:us-east-1:000000000000:function:{name}"


def _iter_ids(values: Mapping[str, Any]) -> Iterator[str]:
    for name in ("guardrail_id", "guardrail_arn"):
        if values.get(name):
            yield str(values[name])


def _read_object(values: Mapping[str, Any], files: ProjectFiles, folder: Path) -> str:
    if values.get("content") is not None:
        return str(values["content"])
    return files.read_text(str(values.get("source") or ""), folder)


def _read_function(function: Resource, resources: Sequence[Resource], folder: Path) -> FunctionCode:
    values = function.values
    layers = values.get("layers")
    blocks = list_mappings(values.get("environment"))
    variables = as_mapping(blocks[0].get("variables")) if blocks else {}
    code = FunctionCode(
        name=str(values.get("function_name") or function.name),
        handler=str(values.get("handler") or ""),
        runtime=str(values.get("runtime") or ""),
        base=folder,
        environment=read_variables(variables),
        unknown_variables=tuple(_find_unknown_variables(function, variables)),
        layers=tuple(map(str, layers)) if isinstance(layers, list) else (),
        file=function.file,
        line=function.line,
    )
    return replace(code, **_find_code(values, resources))


def _find_unknown_variables(function: Resource, variables: Mapping[str, Any]) -> Iterator[str]:
    """The names of the variables that are not known, or for which something stands."""
    prefix = "environment.variables."
    gaps = [it.path for it in function.gaps]
    if prefix.rstrip(".") in gaps:
        yield "variables"
    yield from sorted({it.removeprefix(prefix) for it in gaps if it.startswith(prefix)})
    stand_ins = [it.stand_in for it in function.gaps if it.stand_in]
    for name, value in variables.items():
        if any(it in str(value) for it in stand_ins):
            yield name


def _find_code(values: Mapping[str, Any], resources: Sequence[Resource]) -> dict[str, Any]:
    if values.get("package_type") == "Image" or values.get("image_uri"):
        return {"problem": "it is a container image"}
    name = values.get("filename")
    if isinstance(name, list):
        return {"problem": "its code is in several folders"}
    if not name:
        where = "in Amazon S3" if values.get("s3_key") else "known only when applied"
        return {"problem": f"its code is {where}"}
    archives = [it for it in resources if it.kind == "archive_file"]
    archive = next((it for it in archives if it.values.get("output_path") == name), None)
    if archive is None:
        return {"path": str(name)}
    own = archive.values
    if path := own.get("source_dir") or own.get("source_file"):
        return {"path": str(path)}
    if own.get("source_content"):
        return {"inline": str(own["source_content"])}
    sources = list_mappings(own.get("source"))
    if len(sources) == 1:
        return {"inline": str(sources[0].get("content") or "")}
    return {"problem": "its code is an archive of several sources"}
