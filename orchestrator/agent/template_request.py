"""What a rendered template asks its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.agent.template_model import additional_fields
from orchestrator.diagnostics import Diagnostic
from orchestrator.errors import TemplateError
from orchestrator.flows.custom.converse_request import ConverseRequest
from orchestrator.flows.template_loop import TemplateRequest
from orchestrator.message import Message
from orchestrator.models import Model
from orchestrator.prompts.languages.base import Document, Rendered
from orchestrator.prompts.languages.converse import converse, tool_specs
from orchestrator.prompts.languages.prompty.front_matter import check_set
from orchestrator.prompts.source import warn

# Members of tools that say what kind they are; without one it is a function.
_KINDS = ("kind", "type")


def build_request(
    document: Document, rendered: Rendered, inputs: Mapping[str, Any], model: Model
) -> tuple[TemplateRequest, list[Diagnostic]]:
    """The request of a rendering, and what is doubtful about it.

    Raises:
        TemplateError: It has no message, or one that no model takes.
    """
    functions = [tool for tool in rendered.tools if _is_function(tool)]
    found = [*_find_other_tools(document, rendered.tools)]
    system, messages, _ = converse(rendered, encoded=True)
    if not messages:
        if not system.strip():
            raise TemplateError("the template is empty", file=document.source)
        # Models want a message of the user, and a prompt without roles is one.
        messages, system = (
            [Message("user", [{"text": str(system)}], system.spans)],
            type(system)(""),
        )
    options = check_set(document.settings.get("additional", {}))
    additional, left_out = additional_fields(model, options)
    if left_out:
        message = f"{', '.join(left_out)}: options of OpenAI's protocol, which are not sent"
        instead = f"the model {model.model_id!r} has other ones"
        found.append(warn("unsent-option", message, instead, document.source, severity="info"))
    specs = tool_specs(check_set(functions))
    inference = check_set(dict(document.settings.get("inference", {})))
    request = ConverseRequest(messages, system, specs, inference, additional)
    return TemplateRequest(request, _read_bindings(functions, document, inputs)), found


def _to_specs(rendered: Rendered, functions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    from orchestrator.prompts.languages.converse import tool_specs

    return tool_specs(check_set([dict(one) for one in functions]))


def _is_function(tool: Mapping[str, Any]) -> bool:
    kind = next((tool[name] for name in _KINDS if tool.get(name)), "function")
    return kind == "function" and bool(_name_of(tool))


def _name_of(tool: Mapping[str, Any]) -> str:
    inner = tool.get("function")
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return str(name or tool.get("name") or tool.get("id") or "")


def _find_other_tools(
    document: Document, tools: Sequence[Mapping[str, Any]]
) -> Iterator[Diagnostic]:
    others = [_name_of(tool) or str(tool.get("type")) for tool in tools if not _is_function(tool)]
    if others:
        message = f"tools that are no functions are not offered to the model: {', '.join(others)}"
        instead = "write a function of the name, and give it in tools="
        yield warn("unsupported-tool", message, instead, document.source)


def _read_bindings(
    functions: Sequence[Mapping[str, Any]], document: Document, inputs: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Arguments that inputs of the template give (Prompty: `bindings`)."""
    defaults = {one.name: one.default for one in document.inputs}
    found: dict[str, dict[str, Any]] = {}
    for tool in functions:
        given = tool.get("bindings") or {}
        if isinstance(given, Mapping):
            given = [{"name": name, "input": it} for name, it in given.items()]
        for one in given if isinstance(given, list) else ():
            if isinstance(one, Mapping) and one.get("name"):
                source = one.get("input")
                source = source.get("input") if isinstance(source, Mapping) else source
                value = inputs.get(str(source), defaults.get(str(source)))
                found.setdefault(_name_of(tool), {})[str(one["name"])] = value
    return found
