"""What stands beside agents in CloudFormation's and SAM's templates: functions and guardrails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.support.documents import Place
from orchestrator.transfer.build_document import as_mapping
from orchestrator.transfer.cloudformation.agents import NOTHING, Intrinsics, parse_template
from orchestrator.transfer.function_code import FunctionCode, read_variables, to_text
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.surroundings import GuardrailSource, Surroundings

_FUNCTIONS = ("AWS::Lambda::Function", "AWS::Serverless::Function")
_POINTERS = ("AWS::Lambda::Alias", "AWS::Lambda::Version")
_SCHEMAS = (".json", ".yaml", ".yml")
_MOST_LEVELS = 250


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A template, and where what it names is."""

    data: Mapping[str, Any]
    file: Path
    root: Place | None = None
    # Files by the keys under which they are put into Amazon S3
    assets: Mapping[str, str] = field(default_factory=dict)

    def line_of(self, name: str) -> int | None:
        """The line of a resource."""
        place = self.root.follow(("Resources", name))[0] if self.root else None
        return place.key[0] if place and place.key else None


def find_surroundings(
    template: TemplateFile, files: ProjectFiles, parameters: Mapping[str, str]
) -> Surroundings:
    """What of a template's resources agents may name.

    Raises:
        DefinitionError: Functions are nested without end.
    """
    return _Finder(template, files, parameters).find()


class _Finder:
    def __init__(
        self, template: TemplateFile, files: ProjectFiles, parameters: Mapping[str, str]
    ) -> None:
        self.template = template
        self.files = files
        self.intrinsics = Intrinsics(template.data, parameters)
        self.resources = as_mapping(template.data.get("Resources"))
        self.folder = template.file.parent

    def find(self) -> Surroundings:
        found = Surroundings(self.files)
        for name, resource in self.resources.items():
            kind = as_mapping(resource).get("Type")
            if kind in _FUNCTIONS:
                found.functions[self.evaluate_text({"Fn::GetAtt": [name, "Arn"]})] = (
                    self.read_function(str(name), as_mapping(resource))
                )
            elif kind == "AWS::Bedrock::Guardrail":
                source = self.read_guardrail(str(name), as_mapping(resource))
                for way in ({"Ref": name}, {"Fn::GetAtt": [name, "GuardrailId"]}):
                    found.guardrails[self.evaluate_text(way)] = source
        for name, resource in self.resources.items():
            if as_mapping(resource).get("Type") in _POINTERS:
                self.add_pointer(str(name), as_mapping(resource), found)
            elif as_mapping(resource).get("Type") == "Custom::CDKBucketDeployment":
                self.add_deployment(as_mapping(resource), found)
        for key, path in self.template.assets.items():
            with suppress(DefinitionError):
                if Path(key).suffix in _SCHEMAS:
                    found.objects["", key] = self.files.read_text(path, self.folder)
        return found

    def evaluate_text(self, node: Any) -> str:
        value = self.intrinsics.evaluate(node)
        return value if isinstance(value, str) else ""

    def evaluate_properties(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        value = self.intrinsics.evaluate(resource.get("Properties") or {})
        return dict(value) if isinstance(value, Mapping) and value is not NOTHING else {}

    def add_pointer(self, name: str, resource: Mapping[str, Any], found: Surroundings) -> None:
        function = self.evaluate_properties(resource).get("FunctionName")
        for arn, code in [*found.functions.items()]:
            if function in (arn, code.name):
                found.functions[self.evaluate_text({"Ref": name})] = code

    def add_deployment(self, resource: Mapping[str, Any], found: Surroundings) -> None:
        """Adds the schemas in the folders that the CDK puts into a bucket."""
        properties = self.evaluate_properties(resource)
        bucket = str(properties.get("DestinationBucketName"))
        prefix = PurePosixPath(str(properties.get("DestinationBucketKeyPrefix") or ""))
        for source in list_items(properties.get("SourceObjectKeys")):
            with suppress(DefinitionError):
                folder = self.files.resolve(self.template.assets.get(str(source), ""), self.folder)
                if folder == self.folder or not folder.is_dir():
                    continue
                for name, text in self.files.read_code(folder)[0].items():
                    if Path(name).suffix in _SCHEMAS:
                        found.objects[bucket, (prefix / name).as_posix()] = text

    def read_guardrail(self, name: str, resource: Mapping[str, Any]) -> GuardrailSource:
        members = self.evaluate_properties(resource)
        own = {"Name": name, **members} if members else {}
        return GuardrailSource(own, str(self.template.file), self.template.line_of(name))

    def read_function(self, name: str, resource: Mapping[str, Any]) -> FunctionCode:
        properties = self.merge_globals(resource)
        code = {"base": self.folder, **self.find_code(resource, properties)}
        return FunctionCode(
            name=str(properties.get("FunctionName") or name),
            handler=str(properties.get("Handler") or ""),
            runtime=str(properties.get("Runtime") or ""),
            environment=read_variables(_get_variables(properties)),
            unknown_variables=tuple(self.find_unknown_variables(resource)),
            layers=tuple(map(to_text, list_items(properties.get("Layers")))),
            file=str(self.template.file),
            line=self.template.line_of(name),
            **code,
        )

    def find_unknown_variables(self, resource: Mapping[str, Any]) -> Iterator[str]:
        """The names of a function's variables for which something stands."""
        own = as_mapping(resource.get("Properties"))
        shared: Mapping[str, Any] = {}
        if resource.get("Type") == "AWS::Serverless::Function":
            shared = as_mapping(as_mapping(self.template.data.get("Globals")).get("Function"))
        for name, node in {**_get_variables(shared), **_get_variables(own)}.items():
            self.intrinsics.assumed = {}
            self.intrinsics.evaluate(node)
            # Region and account are of wherever the agent runs, and are told elsewhere.
            if any(not it.startswith("AWS::") for it in self.intrinsics.assumed):
                yield str(name)

    def merge_globals(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        # SAM: mappings of `Globals` and of the function are merged, and the function's own win.
        own = self.evaluate_properties(resource)
        if resource.get("Type") != "AWS::Serverless::Function":
            return own
        shared = as_mapping(as_mapping(self.template.data.get("Globals")).get("Function"))
        return _merge(as_mapping(self.intrinsics.evaluate(shared)), own)

    def find_code(
        self, resource: Mapping[str, Any], properties: Mapping[str, Any]
    ) -> dict[str, Any]:
        if properties.get("PackageType") == "Image" or properties.get("ImageUri"):
            return {"problem": "it is a container image"}
        path = as_mapping(resource.get("Metadata")).get("aws:asset:path")
        if isinstance(path, str):
            return {"path": path}
        code = properties.get("Code", properties.get("CodeUri"))
        inline = as_mapping(code).get("ZipFile", properties.get("InlineCode"))
        if inline is not None:
            return {"inline": to_text(inline)}
        if isinstance(code, str) and not code.startswith("s3://"):
            return {"path": code}
        key = as_mapping(code).get("S3Key", as_mapping(code).get("Key"))
        if asset := self.template.assets.get(str(key)):
            return {"path": asset}
        if "ImageUri" in as_mapping(code):
            return {"problem": "it is a container image"}
        return {"problem": "its code is in Amazon S3" if code else "it names no code"}


def _get_variables(function: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_mapping(as_mapping(function.get("Environment")).get("Variables"))


def list_items(value: Any) -> list[Any]:
    """A value that is a list; an empty one for any other."""
    return value if isinstance(value, list) else []


def _merge(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**shared, **own}
    for name in shared.keys() & own.keys():
        if isinstance(shared[name], Mapping) and isinstance(own[name], Mapping):
            merged[name] = _merge(shared[name], own[name])
    return merged


def include_files(template: Any, files: ProjectFiles, folder: Path) -> Any:
    """The template with the local files that `AWS::Include` names in place.

    A file that cannot be read stays named, and so becomes something that is not known.

    Raises:
        DefinitionError: The template is nested too deeply.
    """
    return _include(template, files, folder, 0)


def _include(
    node: Any, files: ProjectFiles, folder: Path, level: int, *, is_text: bool = False
) -> Any:
    # A schema is a text, and stays as it is written.
    if level > _MOST_LEVELS:
        raise DefinitionError("the template is nested too deeply")
    if isinstance(node, list):
        return [_include(it, files, folder, level + 1) for it in node]
    if not isinstance(node, Mapping):
        return node
    for location in _iter_included(node):
        with suppress(DefinitionError):
            text = files.read_text(location, folder)
            # AWS: what is included is data, with functions of its own.
            return text if is_text else parse_template(text, location).data
    return {
        name: _include(it, files, folder, level + 1, is_text=name == "Payload")
        for name, it in node.items()
    }


def _iter_included(node: Mapping[str, Any]) -> Iterator[str]:
    transform = as_mapping(node.get("Fn::Transform"))
    location = as_mapping(transform.get("Parameters")).get("Location")
    if transform.get("Name") == "AWS::Include" and isinstance(location, str):
        if not location.startswith("s3://"):
            yield location


def find_exports(templates: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What templates export, by the names of the exports, as far as they tell it themselves."""
    exports = {}
    for data in templates:
        intrinsics = Intrinsics(data, {})
        for output in as_mapping(data.get("Outputs")).values():
            name = intrinsics.evaluate(as_mapping(as_mapping(output).get("Export")).get("Name"))
            value = intrinsics.evaluate(as_mapping(output).get("Value"))
            if isinstance(name, str) and isinstance(value, str):
                exports[name] = value
    return exports


def import_values(node: Any, exports: Mapping[str, str], level: int = 0) -> Any:
    """A template with the values of other templates in the place of their `Fn::ImportValue`."""
    if level > _MOST_LEVELS:
        raise DefinitionError("the template is nested too deeply")
    if isinstance(node, list):
        return [import_values(it, exports, level + 1) for it in node]
    if not isinstance(node, Mapping):
        return node
    name = node.get("Fn::ImportValue")
    if len(node) == 1 and isinstance(name, str) and name in exports:
        return exports[name]
    return {key: import_values(it, exports, level + 1) for key, it in node.items()}
