"""A folder of Terraform's sources → the resources that they would make.

Variables have their defaults, values of `terraform.tfvars` and those that are given; local modules
are read too. What only AWS makes (an id, an ARN) gets a stand-in of the right form, by which parts
find their agents, and which is noted where it ends up in an agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from orchestrator.errors import DefinitionError
from orchestrator.support.documents import parse
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.terraform.attributes import guess_attribute
from orchestrator.transfer.terraform.handles import (
    META,
    Attributes,
    LazyInputs,
    Outputs,
    RemoteModule,
)
from orchestrator.transfer.terraform.hcl import Block, Expression, parse_hcl
from orchestrator.transfer.terraform.hcl_evaluate import (
    Budget,
    Evaluator,
    Step,
    Unknown,
    pair_items,
)
from orchestrator.transfer.terraform.hcl_types import complete_value
from orchestrator.transfer.terraform.resources import Gap, Resource

_MOST_BYTES = 2_000_000  # sources of one project
_MOST_SECONDS = 60  # of the parser
_MOST_INSTANCES = 200
_MOST_MODULES = 300
_MOST_LEVELS = 20
_VERSIONS = ("DRAFT", "1", "0", "$LATEST")
# Whole types whose values are looked at; others are looked up when something refers to them.
_WANTED = (
    *("aws_bedrock", "awscc_bedrock", "aws_lambda_function", "aws_lambda_alias"),
    *("aws_s3_object", "aws_s3_bucket_object"),
)


def read_source_folder(
    folder: Path, files: ProjectFiles, parameters: Mapping[str, str]
) -> list[Resource]:
    """The resources that the sources in a folder, and in the local modules it calls, would make.

    Raises:
        DefinitionError: A file cannot be read, or values refer to each other without end.
        DependencyFailed: The extra `terraform` is not installed.
    """
    project = _Project(files, folder)
    root = Module(project, folder, "", parameters)
    root.inputs = {**root.read_variable_files(), **parameters}
    return [*root.iter_resources()]


def list_called_folders(folder: Path, files: ProjectFiles) -> list[Path]:
    """The folders of local modules that the sources in a folder call.

    Raises:
        DefinitionError: A file cannot be read.
        DependencyFailed: The extra `terraform` is not installed.
    """
    project = _Project(files, folder)
    module = Module(project, folder, "", {})
    found = (module.find_folder(block) for block in module.calls.values())
    return [it for it in found if isinstance(it, Path)]


@dataclass(slots=True)
class _Project:
    files: ProjectFiles
    folder: Path  # of the root module, to which paths are relative
    budget: Budget = field(default_factory=Budget)
    parsed: dict[Path, list[Block]] = field(default_factory=dict)
    size: int = 0
    seconds: float = 0.0
    modules: int = 0
    # What was not known while a resource was worked out, and where; innermost last.
    gaps: list[list[Gap]] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)

    def parse_folder(self, folder: Path) -> list[Block]:
        if folder not in self.parsed:
            sources = sorted(it for it in folder.glob("*.tf") if it.is_file())
            self.parsed[folder] = [self.parse_file(it) for it in sources]
        return self.parsed[folder]

    def parse_file(self, file: Path) -> Block:
        text = self.files.read_text(str(file))
        self.size += len(text)
        if self.size > _MOST_BYTES:
            raise DefinitionError(f"the sources are larger than {_MOST_BYTES:,} bytes", file=file)
        if self.seconds > _MOST_SECONDS:
            text = f"reading the sources before this one took more than {_MOST_SECONDS} seconds"
            raise DefinitionError(text, file=file)
        began = monotonic()
        block = parse_hcl(text, str(file))
        self.seconds += monotonic() - began
        return block


class Module:
    """One call of a module; also the scope of its expressions."""

    def __init__(
        self, project: _Project, folder: Path, prefix: str, inputs: Mapping[str, Any]
    ) -> None:
        project.modules += 1
        if project.modules > _MOST_MODULES:
            raise DefinitionError(
                f"there are more than {_MOST_MODULES} modules, or they are nested"
            )
        self.project = project
        self.folder = folder
        self.prefix = prefix
        self.inputs = inputs
        blocks = [it for one in project.parse_folder(folder) for it in one.blocks]
        self.variables = _by_label(blocks, "variable")
        self.outputs = _by_label(blocks, "output")
        self.calls = _by_label(blocks, "module")
        self.data = {it.labels[:2]: it for it in blocks if it.kind == "data" and it.labels[1:]}
        self.resources = {
            it.labels[:2]: it for it in blocks if it.kind == "resource" and it.labels[1:]
        }
        self.locals = {
            name: it
            for one in blocks
            if one.kind == "locals"
            for name, it in one.attributes.items()
        }
        self.known_locals: dict[str, tuple[Any, list[Gap]]] = {}
        self.children: dict[str, Any] = {}

    @property
    def path(self) -> str:
        """Terraform's `path.module`."""
        return Path(os.path.relpath(self.folder, self.project.folder)).as_posix()

    def read_variable_files(self) -> dict[str, Any]:
        """The values in `terraform.tfvars` and `*.auto.tfvars`."""
        own = [self.folder / "terraform.tfvars", *sorted(self.folder.glob("*.auto.tfvars"))]
        values: dict[str, Any] = {}
        for file in own:
            if file.is_file():
                block = self.project.parse_file(file)
                values |= {name: self.evaluate(it) for name, it in block.attributes.items()}
        return values

    def evaluate(self, expression: Expression, bindings: Mapping[str, Any] | None = None) -> Any:
        """The value of an expression of this module."""
        self.project.places.append((expression.file, expression.line))
        try:
            evaluator = Evaluator(self, self.project.budget, bindings or {})
            return evaluator.evaluate(expression.node)
        finally:
            self.project.places.pop()

    # What resources there are.

    def iter_resources(self) -> Iterator[Resource]:
        """The resources of the module, and of the modules that it calls."""
        for mode, blocks in (("managed", self.resources), ("data", self.data)):
            for (kind, name), block in blocks.items():
                if kind.startswith(_WANTED) or kind == "archive_file":
                    for index, bindings in self.expand(block):
                        yield self.build_resource(mode, (kind, name), block, index, bindings)
                elif mode == "managed":
                    # Nothing of it is needed but that it is there.
                    yield Resource(f"{self.prefix}{kind}.{name}", kind, name, {}, mode)
        for name in self.calls:
            child = self.call_module(name)
            for one in child.values() if isinstance(child, dict) else _as_list(child):
                if isinstance(one, Outputs):
                    yield from one.module.iter_resources()
                elif isinstance(one, RemoteModule):
                    yield from one.iter_resources()

    def expand(self, block: Block) -> list[tuple[str, dict[str, Any]]]:
        """The instances of a block: index and bindings of each."""
        if each := block.attributes.get("for_each"):
            items = self.evaluate(each)
            if not isinstance(items, (dict, list)):
                gap = Unknown("each.value", "comes from a for_each that is not known")
                return [("", {"each": {"key": gap, "value": gap}})]
            pairs = pair_items(items) if isinstance(items, dict) else [(it, it) for it in items]
            pairs = [(key, value) for key, value in pairs if isinstance(key, str)]
            bound = [(f'["{key}"]', {"each": {"key": key, "value": it}}) for key, it in pairs]
            return self.limit(bound, block)
        if count := block.attributes.get("count"):
            number = self.evaluate(count)
            if not isinstance(number, int):
                return [("[0]", {"count": {"index": 0}})]
            most = range(min(number, _MOST_INSTANCES + 1))
            return self.limit([(f"[{it}]", {"count": {"index": it}}) for it in most], block)
        return [("", {})]

    def limit(self, instances: list[Any], block: Block) -> list[Any]:
        """The instances, which are not too many."""
        if len(instances) > _MOST_INSTANCES:
            text = f"this has more than {_MOST_INSTANCES} instances"
            raise DefinitionError(text, file=block.file, line=block.line)
        return instances

    def address(self, mode: str, labels: tuple[str, ...], index: str) -> str:
        """The address of an instance."""
        data = "data." if mode == "data" else ""
        return f"{self.prefix}{data}{'.'.join(labels[:2])}{index}"

    def build_resource(
        self, mode: str, labels: tuple[str, ...], block: Block, index: str, bindings: dict[str, Any]
    ) -> Resource:
        """The resource of one instance of a block."""
        address = self.address(mode, labels, index)
        gaps: list[Gap] = []
        self.project.gaps.append(gaps)
        try:
            values = self.read_body(block, bindings)
            known = self.drop_unknown(values, "", block, gaps)
        finally:
            self.project.gaps.pop()
        ids = guess_attribute(labels[0], address, known)
        return Resource(
            address,
            labels[0],
            labels[1],
            values={**ids, **known},
            mode=mode,
            gaps=tuple(dict.fromkeys(gaps)),
            file=block.file,
            line=block.line,
            folder=str(self.project.folder),
        )

    def read_body(self, block: Block, bindings: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a block, with inner blocks as lists."""
        with self.project.budget.nest():
            values: dict[str, Any] = {
                name: self.evaluate(it, bindings)
                for name, it in block.attributes.items()
                if name not in META
            }
            for inner in block.blocks:
                if inner.kind == "dynamic" and inner.labels:
                    before = values.get(inner.labels[0], [])
                    if isinstance(before, list):
                        items = self.read_dynamic(inner, bindings)
                        values[inner.labels[0]] = [*before, *items]
                elif inner.kind not in META:
                    before = values.get(inner.kind, [])
                    if isinstance(before, list):
                        values[inner.kind] = [*before, self.read_body(inner, bindings)]
            return values

    def read_dynamic(self, block: Block, bindings: Mapping[str, Any]) -> list[Any]:
        """The blocks that a `dynamic` block makes."""
        each = block.attributes.get("for_each")
        items = self.evaluate(each, bindings) if each else []
        if not isinstance(items, (list, dict)):
            return [items] if isinstance(items, Unknown) else []
        iterator = block.attributes.get("iterator")
        name = str(iterator.node.children[0].children[0]) if iterator else block.labels[0]
        return [
            self.read_body(content, {**bindings, name: {"key": key, "value": value}})
            for key, value in self.limit(pair_items(items), block)
            for content in block.find_blocks("content")
        ]

    def drop_unknown(self, value: Any, path: str, block: Block, gaps: list[Gap]) -> Any:
        """The value without what is not known, which is added to `gaps`."""
        self.project.budget.measure(value)
        return self._drop_unknown(value, path, block, gaps)

    def _drop_unknown(self, value: Any, path: str, block: Block, gaps: list[Gap]) -> Any:
        if isinstance(value, dict):
            kept = {}
            for name, inner in value.items():
                at = f"{path}.{name}".lstrip(".")
                if isinstance(inner, Unknown):
                    file, line = _find_place(block, at)
                    gaps.append(Gap(at, f"({inner.what}) {inner.why}", inner.way, "", file, line))
                else:
                    kept[name] = self._drop_unknown(inner, at, block, gaps)
            return kept
        if isinstance(value, list):
            missing = [it for it in value if isinstance(it, Unknown)]
            file, line = _find_place(block, path)
            for it in missing:
                gaps.append(Gap(path, f"({it.what}) {it.why}", it.way, "", file, line))
            rest = [it for it in value if not isinstance(it, Unknown)]
            return [self._drop_unknown(it, path, block, gaps) for it in rest]
        return None if hasattr(value, "get_member") else value

    # What names mean (`Scope`).

    def look_up(self, root: str, steps: Sequence[Step]) -> tuple[Any, Sequence[Step]]:
        """What a reference begins with; see `Scope`."""
        names = [it for it in steps[:2] if isinstance(it, str)]
        match root:
            case "var" if names:
                return self.look_up_variable(names[0]), steps[1:]
            case "local" if names:
                return self.look_up_local(names[0]), steps[1:]
            case "path":
                return {"module": self.path, "root": ".", "cwd": "."}, steps
            case "terraform":
                return {"workspace": "default"}, steps
            case "module" if names:
                return self.call_module(names[0]), steps[1:]
            case "data" if len(names) == 2:
                return self.look_up_block("data", (names[0], names[1])), steps[2:]
        if names and not steps[:1] == [None]:
            return self.look_up_block("managed", (root, names[0])), steps[1:]
        return Unknown(".".join([root, *names]), "is not worked out here"), steps

    def look_up_local(self, name: str) -> Any:
        """A local value, which is worked out once; what was not known in it is noted again."""
        if name not in self.locals:
            return Unknown(f"local.{name}", "is not in the sources", fails=True)
        if name not in self.known_locals:
            gaps: list[Gap] = []
            self.project.gaps.append(gaps)
            try:
                self.known_locals[name] = (self.evaluate(self.locals[name]), gaps)
            finally:
                self.project.gaps.pop()
        value, gaps = self.known_locals[name]
        for it in dict.fromkeys(gaps):
            self.add_gap(it)
        return value

    def look_up_variable(self, name: str) -> Any:
        """The value of a variable, with the defaults that its type has for parts of it."""
        own = self.variables[name].attributes if name in self.variables else {}
        if name in self.inputs:
            value = self.inputs[name]
        elif "default" in own:
            value = self.evaluate(own["default"])
        else:
            way = f"give --parameter {name}=VALUE, or change it in agent.yaml"
            return Unknown(f"var.{name}", "has no default", way)
        if "type" not in own:
            return value
        self.project.budget.measure(value)
        place = own["type"]
        return complete_value(
            place.node, value, lambda node: self.evaluate(replace(place, node=node))
        )

    def look_up_block(self, mode: str, labels: tuple[str, str]) -> Any:
        """A resource, or a list or mapping of its instances."""
        block = (self.data if mode == "data" else self.resources).get(labels)
        shown = self.address(mode, labels, "")
        if block is None:
            return Unknown(shown, "is not in the sources")
        handles = {
            index: Attributes(self, mode, labels, block, index, bindings)
            for index, bindings in self.expand(block)
        }
        if "for_each" in block.attributes:
            return {index[2:-2]: it for index, it in handles.items()}
        return [*handles.values()] if "count" in block.attributes else handles[""]

    def call_module(self, name: str) -> Any:
        """The outputs of a module that is called; a list or mapping of them with several."""
        if name not in self.children:
            block = self.calls.get(name)
            if block is None:
                return Unknown(f"module.{name}", "is not in the sources")
            # Outputs may refer to inputs of the same call, so it is there before it is read.
            self.children[name] = Unknown(f"module.{name}", "refers to itself")
            self.children[name] = self._call_module(name, block)
        return self.children[name]

    def _call_module(self, name: str, block: Block) -> Any:
        folder = self.find_folder(block)
        made: dict[str, Any] = {}
        for index, bindings in self.expand(block):
            prefix = f"{self.prefix}module.{name}{index}."
            inputs = LazyInputs(self, block, bindings)
            if isinstance(folder, Path):
                made[index] = Outputs(Module(self.project, folder, prefix, inputs))
            else:
                made[index] = RemoteModule(self, prefix, block, bindings, folder)
        if "for_each" in block.attributes:
            return {index[2:-2]: it for index, it in made.items()}
        return [*made.values()] if "count" in block.attributes else made.get("")

    def find_folder(self, block: Block) -> Path | str:
        """The folder of a local module, or the address of another."""
        source = block.attributes.get("source")
        name = self.evaluate(source) if source else ""
        if not isinstance(name, str) or not name.startswith(("./", "../")):
            return str(name)
        folder = self.project.files.resolve(name, self.folder)
        return folder if folder.is_dir() else name

    def call(self, name: str, arguments: list[Any]) -> Any:
        """What a function makes that needs files; see `Scope`."""
        try:
            if name in ("file", "templatefile", "yamldecode") and isinstance(arguments[0], str):
                return getattr(self, f"call_{name}")(*arguments)
        except (DefinitionError, TypeError) as error:
            # A file outside of the project is refused here, and told where its text is missing.
            reason = error.reason if isinstance(error, DefinitionError) else "wrong arguments"
            what = f"{name}({str(arguments[0])[:60]!r})"
            return Unknown(what, f"cannot be read: {reason}", fails=True)
        return Unknown(f"{name}(…)", "is not worked out here")

    def call_file(self, name: str) -> str:
        """The text of a file."""
        return self.project.files.read_text(name, self.project.folder)

    def call_templatefile(self, name: str, variables: Mapping[str, Any]) -> Any:
        """The text of a template file with its variables."""
        text = self.call_file(name)
        # A template file is the inside of a heredoc whose end stands nowhere in it.
        mark = "END"
        while mark in text:
            mark += "_"
        block = parse_hcl(f"text = <<{mark}\n{text}\n{mark}\n", name)
        value = self.evaluate(block.attributes["text"], variables)
        return value.removesuffix("\n") if isinstance(value, str) else value

    def call_yamldecode(self, text: str) -> Any:
        """The data of a YAML text."""
        return parse(text, "").data

    def assume(self, unknown: Unknown) -> str:
        """The text that stands for what is not known; see `Scope`."""
        # The same text wherever the same is not known, so that what belongs together stays so.
        stand_in = "UNKNOWN-" + "".join(it if it.isalnum() else "-" for it in unknown.what)[:60]
        self.note_stand_in(unknown.what, stand_in, unknown.why, unknown.way)
        return stand_in

    def note_stand_in(self, what: str, stand_in: str, why: str, way: str) -> None:
        """Notes that a text stands for what is not known."""
        # A version says nothing without the id beside it, which is noted.
        if stand_in not in _VERSIONS:
            self.add_gap(Gap("", f"{what} {why}", way, stand_in))

    def add_gap(self, gap: Gap) -> None:
        """Notes a gap of the resource that is worked out, at the member that needs it."""
        if self.project.gaps and self.project.places:
            file, line = self.project.places[0]
            self.project.gaps[-1].append(replace(gap, file=file, line=line))


def _by_label(blocks: Sequence[Block], kind: str) -> dict[str, Block]:
    return {it.labels[0]: it for it in blocks if it.kind == kind and it.labels}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _find_place(block: Block, path: str) -> tuple[str, int]:
    """The place of the member at a path, or of the nearest block around it."""
    here = block
    for name in path.split("."):
        if name in here.attributes:
            return here.attributes[name].file, here.attributes[name].line
        inner = [it for it in here.blocks if name in (it.kind, *it.labels)]
        if not inner:
            break
        here = inner[0]
        content = here.find_blocks("content")
        here = content[0] if here.kind == "dynamic" and content else here
    return here.file, here.line
