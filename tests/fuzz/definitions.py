"""Definitions of all kinds: what is read is read, and all else is refused by an error of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import botocore.session
import yaml
from botocore.validate import ParamValidator
from hypothesis import strategies as st

from orchestrator import DefinitionError, OrchestratorError
from orchestrator.actions.arguments import CoercionError, compile_schema
from orchestrator.actions.openapi import api_operations
from orchestrator.actions.schemas import SchemaReader
from orchestrator.definition import (
    definition_of,
    dump_definition,
    lint_definition,
    parse_definition,
)
from orchestrator.definition.guardrail_file import guardrail_of
from orchestrator.flows.languages import read_text
from orchestrator.flows.node_graph import read_definition, validate_definition
from orchestrator.prompts import load_dialect
from orchestrator.prompts.languages import read_template
from orchestrator.transfer import files_of, read_source

from . import good, mutations
from .batch import Property

_ROOT = Path(__file__).parents[2]


def _texts(*patterns: str) -> list[str]:
    files = [file for pattern in patterns for file in sorted(_ROOT.glob(pattern))]
    return [file.read_text(encoding="utf-8") for file in files]


class Wrong(NamedTuple):
    """A text that may be wrong, in a form whose reader says where."""

    form: str
    text: str


def _agent(text: str, file: str = "agent.yaml") -> None:
    definition = parse_definition(text, file=file)
    lint_definition(definition)
    again = parse_definition(dump_definition(definition))
    assert dump_definition(again) == dump_definition(definition)


def _dialect(text: str) -> None:
    with TemporaryDirectory() as folder:
        own = Path(folder, "own")
        own.mkdir()
        (own / "dialect.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        load_dialect("own", Path(folder))


def _template(language: str) -> Callable[[str], object]:
    def read(text: str) -> None:
        document = read_template(text, language)
        try:
            document.render({"x": "a", "l": ["a", "b"]})
        except OrchestratorError as error:
            assert str(error)

    return read


def _terraform(text: str) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "main.tf")
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        for document in read_source(file).agents.values():
            assert "agent.yaml" in files_of(document)


FORMS: Mapping[str, tuple[list[str], Callable[[str], object]]] = {
    "agent.yaml": ([*_texts("examples/*/agent.yaml"), yaml.safe_dump(good.WHOLE_AGENT)], _agent),
    "agent.json": (
        [json.dumps(good.WHOLE_AGENT, indent=1)],
        lambda text: _agent(text, "agent.json"),
    ),
    "openapi": (
        _texts("examples/*/action_groups/*/openapi.yaml"),
        lambda text: api_operations("g", text),
    ),
    "dialect": (
        [text for text in _texts("templates/*/dialect.yaml") if "\nextends: tool-use" in text],
        _dialect,
    ),
    "prompty": ([*good.PROMPTY], _template("prompty")),
    "semantic-kernel": ([good.SEMANTIC_KERNEL], _template("semantic-kernel")),
    "semantic-kernel-yaml": ([good.SEMANTIC_KERNEL_YAML], _template("semantic-kernel")),
    "handlebars": ([good.HANDLEBARS], _template("handlebars")),
    "jinja2": ([good.JINJA2], _template("jinja2")),
    "ppe-messages": ([good.PPE_MESSAGES], _template("ppe")),
    "ppe": ([*_texts("examples/flows/*.ai.yaml"), *good.PPE], lambda text: read_text(text, "ppe")),
    "pl": ([*_texts("examples/flows/*.pl"), *good.PL], lambda text: read_text(text, "pl")),
    "terraform": (_texts("tests/transfer/projects/terraform/*.tf"), _terraform),
}


def _text_is_read_or_refused_with_its_place(given: Wrong) -> None:
    try:
        FORMS[given.form][1](given.text)
    except DefinitionError as error:
        assert str(error)
        # Whatever reads a text says where in it, but for what is about all of it.
        assert error.line is None or 1 <= error.line <= given.text.count("\n") + 3, error
    except OrchestratorError as error:
        assert str(error)


def _data_is_read_or_refused(given: Any) -> None:
    try:
        definition = definition_of(given)
    except OrchestratorError as error:
        assert str(error)
        return
    again = parse_definition(dump_definition(definition))
    assert dump_definition(again) == dump_definition(definition)


def _guardrail_is_read_or_refused(given: Any) -> None:
    try:
        guardrail_of(given).check("Ask E-12 or a@example.org, idiot.", "INPUT")
    except OrchestratorError as error:
        assert str(error)


@cache
def _flow_shape() -> Any:
    model = botocore.session.get_session().get_service_model("bedrock-agent")
    return model.shape_for("FlowDefinition")


def _flow_is_checked(given: Any) -> None:
    # The door of the server lets no other data in.
    if ParamValidator().validate(given, _flow_shape()).has_errors() or not _has_known_types(given):
        return
    try:
        found = validate_definition(read_definition(given))
    except OrchestratorError as error:
        assert str(error)
        return
    for one in found:
        assert one.message and one.to_api()["details"]


def _has_known_types(definition: Any) -> bool:
    nodes, known = definition.get("nodes") or (), {it["type"] for it in good.FLOW["nodes"]}
    ports = [it for node in nodes for name in ("inputs", "outputs") for it in node.get(name) or ()]
    types = ("String", "Number", "Boolean", "Object", "Array")
    return all(it["type"] in known for it in nodes) and all(it["type"] in types for it in ports)


def _arguments_are_fitted_or_refused(given: tuple[Any, Any]) -> None:
    schema, value = given
    reader = SchemaReader(schema, lambda message, where: DefinitionError(message))
    try:
        coerce = compile_schema(reader.schema(schema, ()))
    except DefinitionError:
        return
    try:
        fitted = coerce(value)
    except CoercionError as error:
        assert error.text
        return
    assert coerce(fitted) == fitted or fitted != fitted


def _wrong() -> st.SearchStrategy[Wrong]:
    def of(form: str) -> st.SearchStrategy[Wrong]:
        return st.builds(Wrong, st.just(form), mutations.texts(FORMS[form][0]))

    return st.sampled_from(list(FORMS)).flatmap(of)


def _mappings(whole: dict[str, Any], most: int = 4) -> st.SearchStrategy[Any]:
    return mutations.trees([whole], most).filter(lambda it: isinstance(it, dict))


@contextmanager
def opened() -> Iterator[list[Property]]:
    """The properties of everything that defines something."""
    argument = mutations.trees([{"a": "b-12", "b": [1, "2"], "c": "1.5", "d": "true"}, "{}"])
    yield [
        Property("texts", _wrong(), _text_is_read_or_refused_with_its_place),
        Property("data", _mappings(good.WHOLE_AGENT), _data_is_read_or_refused),
        Property("flows", _mappings(good.FLOW), _flow_is_checked),
        Property("guardrails", _mappings(good.GUARDRAIL), _guardrail_is_read_or_refused),
        Property(
            "arguments",
            st.tuples(mutations.trees([good.SCHEMA]), argument),
            _arguments_are_fitted_or_refused,
        ),
    ]
