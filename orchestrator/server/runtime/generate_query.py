"""GenerateQuery: a question as SQL, for the tables that a knowledge base describes.

Bedrock reads the tables from Redshift. Nothing here does: what is known of them is the
`generationContext` of the knowledge base, so the query is not run, and not checked, either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ModelOutputError, ValidationError
from orchestrator.server.operations import Handler, Request, not_found_error
from orchestrator.server.runtime.single_prompt import ask_for_tag

if TYPE_CHECKING:
    from orchestrator.server.agents.build import AgentResources

QUERY_MODEL = "amazon.nova-pro-v1:0"
"""The model that writes queries. Requests name none, and Bedrock does not say which one it asks."""

_PROMPT = """\
You write SQL for Amazon Redshift. Below are the tables that there are, and a question.

<tables>
{tables}
</tables>
{examples}
<question>
{question}
</question>

Write the one query that answers the question, inside <sql> and </sql>, and nothing else. Use no \
table and no column that is not described above."""
_FENCE = re.compile(r"\A```(?:sql)?", re.IGNORECASE)
# Steady queries for the same question.
_INFERENCE = {"temperature": 0.0, "maximumLength": 2048}

Data = Mapping[str, Any]


def operations_of_queries(resources: AgentResources) -> dict[str, Handler]:
    """GenerateQuery, by the model that the server has in the place of `QUERY_MODEL`."""
    return {"GenerateQuery": partial(_generate_query, resources)}


def _generate_query(resources: AgentResources, request: Request) -> Data:
    params, caller = request.params, request.caller
    configuration = params["transformationConfiguration"].get("textToSqlConfiguration") or {}
    base = configuration.get("knowledgeBaseConfiguration")
    if base is None:
        raise ValidationError(
            "transformationConfiguration.textToSqlConfiguration needs knowledgeBaseConfiguration, "
            "with the ARN of a knowledge base of the type SQL"
        )
    context = _find_context(resources, caller.tenant, base["knowledgeBaseArn"])
    model = resources.models.model(caller, QUERY_MODEL)
    question = params["queryGenerationInput"]["text"]
    reply = ask_for_tag(
        model,
        _build_prompt(context, question),
        "sql",
        question=question,
        inference=_INFERENCE,
        seconds=resources.settings.turn_seconds,
    )
    sql = _unwrap(reply)
    if not sql:
        raise ModelOutputError(f"the model {model.model_id!r} wrote no query; ask again")
    return {"queries": [{"type": "REDSHIFT_SQL", "sql": sql}]}


def _find_context(resources: AgentResources, tenant: str, arn: str) -> Data:
    """The `generationContext` of a knowledge base."""
    id = arn.rpartition("/")[2]
    if resources.arns.knowledge_base(id) != arn:
        raise not_found_error("knowledge base", arn)
    base = resources.bases.record(tenant, id)["knowledgeBase"]
    sql = base["knowledgeBaseConfiguration"].get("sqlKnowledgeBaseConfiguration")
    if sql is None:
        raise ValidationError(
            f"the knowledge base {id!r} holds documents; GenerateQuery is for those of the type SQL"
        )
    generation = sql["redshiftConfiguration"].get("queryGenerationConfiguration") or {}
    context: Data = generation.get("generationContext") or {}
    if not context.get("tables"):
        raise ValidationError(
            f"the knowledge base {id!r} describes no tables, and Redshift is not read here; make "
            "one with queryGenerationConfiguration.generationContext.tables"
        )
    return context


def _build_prompt(context: Data, question: str) -> str:
    from orchestrator.prompts.partials import encode

    return _PROMPT.format(
        tables=encode("\n\n".join(_describe_tables(context))),
        examples="".join(
            f"\n<example>\n{encode(it['naturalLanguage'])}\n<sql>{encode(it['sql'])}</sql>\n"
            "</example>\n"
            for it in context.get("curatedQueries") or ()
        ),
        question=encode(question),
    )


def _describe_tables(context: Data) -> Iterator[str]:
    for table in _list_included(context["tables"]):
        columns = "".join(
            f"\n- {_describe(column)}" for column in _list_included(table.get("columns") or ())
        )
        yield f"Table {_describe(table)}{columns}"


def _list_included(parts: Any) -> list[Data]:
    return [it for it in parts if it.get("inclusion") != "EXCLUDE"]


def _describe(part: Data) -> str:
    name, description = part.get("name", ""), part.get("description")
    return f"{name}: {description}" if description else name


def _unwrap(sql: str) -> str:
    """The query without the fence of a Markdown block."""
    return _FENCE.sub("", sql).removesuffix("```").strip()
