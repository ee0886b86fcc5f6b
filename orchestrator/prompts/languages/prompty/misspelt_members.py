"""Members of a front matter that are nearly those that Prompty has, and so have no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

import yaml

from orchestrator.diagnostics import Diagnostic

__all__ = ["find_misspelt_members"]

_TOP = (
    *("name", "displayName", "description", "version", "metadata", "authors", "tags", "sample"),
    *("model", "inputs", "inputSchema", "outputs", "outputSchema", "tools", "template"),
    *("instructions", "additionalInstructions", "kind", "parameters", "base"),
)
_MODEL = (
    *("id", "provider", "apiType", "api", "connection", "options", "parameters"),
    *("configuration", "response"),
)
_OPTIONS = (
    *("temperature", "topP", "top_p", "topK", "top_k", "maxOutputTokens", "max_tokens"),
    *("stopSequences", "stop", "seed", "frequencyPenalty", "frequency_penalty"),
    *("presencePenalty", "presence_penalty", "additionalProperties", "allowMultipleToolCalls"),
    *("top_logprobs", "logprobs", "logit_bias", "max_completion_tokens", "maxTokens"),
)
_INPUT = (
    *("name", "kind", "type", "title", "description", "required", "default", "example"),
    *("sample", "enum", "enumValues", "strict", "items", "properties", "format", "nullable"),
)
_KINDS = (
    *("string", "integer", "float", "number", "boolean", "array", "object", "any"),
    *("thread", "image", "file", "audio", "video"),
)
_CLOSE = 0.75


def find_misspelt_members(front: str, source: str | None) -> Iterator[Diagnostic]:
    """What is said against the members of a front matter.

    Members of one's own are let alone, and so are options that only a model knows: doubtful is what
    is nearly a member that there is.

    Args:
        front: The front matter, whose lines are the file's.
        source: The file, for messages.
    """
    root = yaml.compose(front, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found = [*_find_near(root, _TOP)]
    for key, part in _members(root):
        if key.value == "model":
            found += _find_near(part, _MODEL)
            for name, options in _members(part):
                if name.value in ("options", "parameters"):
                    found += _find_near(options, _OPTIONS)
        elif key.value in ("inputs", "inputSchema"):
            for one in _inputs(part):
                found += [*_find_near(one, _INPUT), *_find_near_kinds(one)]
    for node, close in found:
        yield Diagnostic(
            severity="warning",
            code="misspelt-member",
            message=f"Prompty has no {node.value[:80]!r} here",
            suggestion=f"did you mean {close!r}?",
            file=source,
            line=node.start_mark.line + 1,
            column=node.start_mark.column + 1,
        )


_Found = Iterator[tuple[yaml.ScalarNode, str]]


def _members(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            yield key, value


def _inputs(node: yaml.Node) -> Iterator[yaml.Node]:
    """The inputs of a list, of a map by name, or of a schema's `properties`."""
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
        return
    members = {key.value: value for key, value in _members(node)}
    properties = members.get("properties")
    if isinstance(properties, yaml.CollectionNode):
        yield from _inputs(properties)
    else:
        yield from members.values()


def _find_near(node: yaml.Node | None, known: Collection[str]) -> _Found:
    for key, _ in _members(node):
        yield from _find_nearest(key, known)


def _find_near_kinds(node: yaml.Node) -> _Found:
    for key, value in _members(node):
        if key.value in ("kind", "type") and isinstance(value, yaml.ScalarNode):
            yield from _find_nearest(value, _KINDS)


def _find_nearest(node: yaml.ScalarNode, known: Collection[str]) -> _Found:
    if node.value not in known:
        for close in get_close_matches(node.value[:80], known, n=1, cutoff=_CLOSE):
            yield node, close
