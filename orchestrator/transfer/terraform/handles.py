"""What references in Terraform's sources lead to: resources, modules and their inputs.

Their members are worked out when they are asked for, as what they refer to may refer to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orchestrator.transfer.terraform.attributes import guess_attribute, guess_data
from orchestrator.transfer.terraform.hcl import Block
from orchestrator.transfer.terraform.hcl_evaluate import Unknown
from orchestrator.transfer.terraform.resources import REMOTE, Resource

if TYPE_CHECKING:
    from orchestrator.transfer.terraform.source import Module

META = ("count", "for_each", "depends_on", "provider", "lifecycle", "provisioner", "connection")
"""Members of blocks that are Terraform's own."""
# What names a resource, and so is its id or another attribute, too.
_NAMES = ("bucket", "function_name", "key", "name")


@dataclass(slots=True, eq=False)
class Attributes:
    """A resource, or what a `data` block reads, in expressions."""

    module: Module
    mode: str
    labels: tuple[str, str]
    block: Block
    index: str
    bindings: dict[str, Any]

    def get_member(self, name: str) -> Any:
        """The value of an attribute, or what stands for one that AWS sets."""
        if name in self.block.attributes and name not in META:
            return self.module.evaluate(self.block.attributes[name], self.bindings)
        inner = [it for it in self.block.blocks if it.kind == name]
        if inner:
            return [self.module.read_body(it, self.bindings) for it in inner]
        address = self.module.address(self.mode, self.labels, self.index)
        if self.mode == "data":
            guess = guess_data(self.labels[0], name, self.get_own)
        else:
            guess = guess_attribute(self.labels[0], address, self).get(name)
        if guess is None:
            return Unknown(f"{address}.{name}")
        if self.mode == "managed" and guess in map(self.get_own, _NAMES):
            return guess  # it is what the block itself says
        why = "is read when applied" if self.mode == "data" else "is known only when applied"
        self.module.note_stand_in(f"{address}.{name}", guess, why, "change it in agent.yaml")
        return guess

    def get_own(self, name: str) -> str:
        """An attribute that the block sets; empty when it does not, or it is not known."""
        own = self.block.attributes.get(name)
        value = self.module.evaluate(own, self.bindings) if own else ""
        return value if isinstance(value, str) else ""

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The same, as a mapping has it."""
        return self.get_own(name) or otherwise


@dataclass(slots=True, eq=False)
class Outputs:
    """The outputs of a module in expressions."""

    module: Module

    def get_member(self, name: str) -> Any:
        """The value of an output."""
        output = self.module.outputs.get(name)
        value = output.attributes.get("value") if output else None
        if value is None:
            return Unknown(f"{self.module.prefix}{name}", "is no output of the module")
        return self.module.evaluate(value)


class LazyInputs(Mapping[str, Any]):
    """The inputs of a module, worked out when they are asked for."""

    def __init__(self, caller: Module, block: Block, bindings: Mapping[str, Any]) -> None:
        self.caller = caller
        self.own = {
            name: it
            for name, it in block.attributes.items()
            if name not in (*META, "source", "version", "providers")
        }
        self.bindings = bindings

    def __getitem__(self, name: str) -> Any:
        return self.caller.evaluate(self.own[name], self.bindings)

    def __iter__(self) -> Iterator[str]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


@dataclass(slots=True, eq=False)
class RemoteModule:
    """A module of a registry, which is not here; one that makes a Lambda function is known."""

    caller: Module
    prefix: str
    block: Block
    bindings: Mapping[str, Any]
    source: str

    def get_member(self, name: str) -> Any:
        """What stands for an output."""
        shown = f"{self.prefix}{name}"
        function = self.build_function() if "terraform-aws-modules/lambda" in self.source else None
        if function is not None and name in _FUNCTION_OUTPUTS:
            guess = str(function.values[_FUNCTION_OUTPUTS[name]])
            self.caller.note_stand_in(shown, guess, "is known only when applied", "change it")
            return guess
        way = "import the JSON of `terraform show -json`, which has all modules"
        return Unknown(shown, f"is of a module that is not here ({self.source[:80]})", way)

    def build_function(self) -> Resource | None:
        """The Lambda function that the module would make."""
        labels = ("aws_lambda_function", "this")
        copy = Block("resource", labels, self.block.file, self.block.line)
        inner = Block("environment", (), self.block.file, self.block.line)
        for name, it in self.block.attributes.items():
            if name == "environment_variables":
                inner.attributes["variables"] = it
            elif name not in (*META, "source", "version", "providers"):
                copy.attributes[_FUNCTION_INPUTS.get(name, name)] = it
        copy.blocks = [inner] if inner.attributes else []
        built = self.caller.build_resource("managed", labels, copy, "", dict(self.bindings))
        values = {**built.values, "filename": _read_path(built.values.get("filename"))}
        return replace(built, address=f"{self.prefix}aws_lambda_function.this", values=values)

    def iter_resources(self) -> Iterator[Resource]:
        """The resources that the module is known to make."""
        if "terraform-aws-modules/lambda" in self.source:
            function = self.build_function()
            if function is not None:
                yield function
        elif "bedrock" in self.source.lower() and self.get_input("create_agent") is not False:
            # Agents of a module that is not here would be missing without a word.
            address = self.prefix.rstrip(".")
            place = self.block.file, self.block.line
            yield Resource(address, self.source[:80], "", {}, REMOTE, file=place[0], line=place[1])

    def get_input(self, name: str) -> Any:
        """What the call sets an input to; `None` when it does not."""
        own = self.block.attributes.get(name)
        return self.caller.evaluate(own, self.bindings) if own else None


def _read_path(value: Any) -> Any:
    # The module takes a path, a mapping with one, or a list of these; of several none is the code.
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    return one.get("path") if isinstance(one, dict) else one


_FUNCTION_INPUTS = {"source_path": "filename", "local_existing_package": "filename"}
_FUNCTION_OUTPUTS = {
    "lambda_function_arn": "arn",
    "lambda_function_qualified_arn": "arn",
    "lambda_function_name": "function_name",
}
