"""Prompty templates (`*.prompty`): front matter, and a body whose lines `role:` begin messages.

There are two dialects, and never a mix of them. `v2` (the default) is that of the specification:
the roles system, user, assistant and developer, and media that are inputs. `legacy` is that of the
older Prompt Section: also tool, function, tools and thread, calls as YAML, and media in the text. A
file says which it is with `template.parser.options.dialect`; an option of the call wins.

Upstream guards its marks with a nonce. Here a mark counts where the author wrote it and nowhere
else: no nonce is needed, attributes survive, and a value is always text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import ChainableUndefined

from orchestrator.errors import TemplateError, ValidationError
from orchestrator.prompts.jinja import CompiledTemplate, Jinja, Mistake
from orchestrator.prompts.languages.mustache import Mustache
from orchestrator.prompts.languages.prompty.document import PromptyDocument, Setup
from orchestrator.prompts.languages.prompty.front_matter import (
    References,
    read_inputs,
    read_yaml,
    resolve_body_references,
    settings_of,
    split_front,
)
from orchestrator.prompts.languages.prompty.lint import find_misspelt_members
from orchestrator.prompts.languages.values import value_text

__all__ = ["DIALECTS", "PromptyDocument", "read"]

DIALECTS = ("v2", "legacy")


def read(
    text: str,
    source: str | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    dialect: Literal["v2", "legacy"] | None = None,
    params: Mapping[str, Any] | None = None,
    roots: Sequence[str | Path] = (),
    strict: bool | None = None,
) -> PromptyDocument:
    """Reads a Prompty template; the arguments are those of `read_template`, and its options.

    - `dialect`: `v2` or `legacy`; by default what the front matter says, else `v2`.
    - `params`: what `${params:...}` reads, in the dialect `legacy`.
    - `roots`: folders beside the template's that `${file:...}` may be in.
    - `strict`: a value that looks like a mark is an error, instead of text. By default what the
      front matter says (`template.format.strict`), else not.
    """
    front = split_front(text, source)
    data = read_yaml(front.text, source)
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise TemplateError("the front matter must be a map", file=source, line=1, column=1)
    template = _read_template_options(data, source, dialect)
    dialect = dialect or template.get("dialect") or "v2"
    if dialect not in DIALECTS:
        raise ValidationError(f"there is no dialect {dialect!r} of Prompty: 'v2' or 'legacy'")
    given = (params or {}) if dialect == "legacy" else None
    references = References(source, folder, roots, environ, given)
    data = _resolve_references(data, references)
    references.diagnostics += find_misspelt_members(front.text, source)
    body = (
        resolve_body_references(front.body, front.line, references) if dialect == "legacy" else {}
    )
    setup = Setup(
        text=text,
        source=source,
        body=front.body,
        line=front.line,
        legacy=dialect == "legacy",
        folder=folder,
        references=references,
        settings=settings_of(data),
        declared=dict(read_inputs(data, source, legacy=dialect == "legacy")),
        strict=template["strict"] if strict is None else strict,
        hoisted={it: value_text(value) for it, value in body.items()},
        old_schema="inputSchema" in data and dialect == "v2",
    )
    return PromptyDocument(setup, _compile_body(template["kind"], setup))


def _read_template_options(
    data: Mapping[str, Any], source: str | None, dialect: str | None
) -> dict[str, Any]:
    """What the front matter says of the template: `kind`, `strict`, `dialect`."""
    given: Any = data.get("template")
    given = {} if given is None else given
    parser = given.get("parser") if isinstance(given, Mapping) else None
    options = parser.get("options") if isinstance(parser, Mapping) else None
    own = options.get("dialect") if isinstance(options, Mapping) else None
    if isinstance(given, str) and (dialect or own) == "legacy":
        given = {"format": given}
    if not isinstance(given, Mapping):
        raise TemplateError(
            f"Invalid template format: {given!r}; write template: {{format: {{kind: jinja2}}}}",
            file=source,
        )
    form = given.get("format") or {}
    form = {"kind": form} if isinstance(form, str) else form
    kind = (parser.get("kind") if isinstance(parser, Mapping) else parser) or "prompty"
    if kind not in ("prompty", "*"):
        raise TemplateError(f"there is no parser {kind!r}; there is 'prompty'", file=source)
    engine = form.get("kind") or "jinja2"
    return {"kind": engine, "strict": form.get("strict") is True, "dialect": own}


def _resolve_references(data: dict[str, Any], references: References) -> dict[str, Any]:
    """The front matter with its references resolved, without the model's `connection`."""
    # A connection often names keys in variables of the process: whoever calls the model has them.
    model = data.get("model")
    if isinstance(model, dict):
        data = {**data, "model": {k: v for k, v in model.items() if k != "connection"}}
    resolved: dict[str, Any] = references.resolve(data)
    return resolved


@cache
def _jinja() -> Jinja:
    return Jinja(value_text, keep_trailing_newline=True, undefined=ChainableUndefined)


def _compile_body(kind: str, setup: Setup) -> CompiledTemplate | Mustache:
    try:
        if kind in ("jinja2", "*"):
            return _jinja().compile_template(setup.body)
        if kind == "mustache":
            return Mustache(setup.body, value_text)
    except Mistake as mistake:
        raise setup.error(mistake.message, mistake.line) from None
    raise TemplateError(
        f"there is no template format {kind!r}: write jinja2 or mustache", file=setup.source
    )
