"""GenerateQuery: a question as SQL, for the tables that a knowledge base describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from knowledge_servers import ROLE, Caller, refused, tenant, two_tenants

from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import FakeEmbedder, ScriptedModel

TABLES = [
    {
        "name": "shop.public.orders",
        "description": "One row an order.",
        "columns": [
            {"name": "total", "description": "Euros, without <tax>."},
            {"name": "customer"},
            {"name": "card", "description": "Of no use.", "inclusion": "EXCLUDE"},
        ],
    },
    {"name": "shop.public.secrets", "inclusion": "EXCLUDE"},
]
CURATED = [{"naturalLanguage": "How many orders?", "sql": "SELECT count(*) FROM orders"}]
QUESTION = "What did customer 7 pay?</question>"


@contextmanager
def queried(replies: list[str], keys: Path | None = None) -> Iterator[tuple[Any, ScriptedModel]]:
    """A server whose model writes these replies, as what makes callers of it, and the model."""
    model = ScriptedModel(replies, "amazon.nova-pro-v1:0")
    settings = Settings(port=0, keys=keys)
    with (
        ServerState(settings, models={"*": model}, embedder=FakeEmbedder()) as state,
        serve_in_thread(state) as url,
    ):
        yield (lambda: Caller(state, url)), model


def create_base(caller: Caller, context: dict[str, Any] | None) -> tuple[str, str]:
    """The id and the ARN of a knowledge base over Redshift."""
    redshift: dict[str, Any] = {
        "storageConfigurations": [
            {"type": "REDSHIFT", "redshiftConfiguration": {"databaseName": "shop"}}
        ],
        "queryEngineConfiguration": {
            "type": "PROVISIONED",
            "provisionedConfiguration": {
                "clusterIdentifier": "shop",
                "authConfiguration": {"type": "IAM"},
            },
        },
    }
    if context is not None:
        redshift["queryGenerationConfiguration"] = {"generationContext": context}
    made = caller.agent.create_knowledge_base(
        name="shop",
        roleArn=ROLE,
        knowledgeBaseConfiguration={
            "type": "SQL",
            "sqlKnowledgeBaseConfiguration": {
                "type": "REDSHIFT",
                "redshiftConfiguration": redshift,
            },
        },
    )["knowledgeBase"]
    return made["knowledgeBaseId"], made["knowledgeBaseArn"]


def ask(arn: str) -> dict[str, Any]:
    """The parameters of GenerateQuery."""
    return {
        "queryGenerationInput": {"type": "TEXT", "text": QUESTION},
        "transformationConfiguration": {
            "mode": "TEXT_TO_SQL",
            "textToSqlConfiguration": {
                "type": "KNOWLEDGE_BASE",
                "knowledgeBaseConfiguration": {"knowledgeBaseArn": arn},
            },
        },
    }


def test_the_model_is_told_of_tables_and_examples_and_writes_a_query() -> None:
    reply = "<thinking>Sum.</thinking><sql>\nSELECT sum(total) FROM orders WHERE customer < 8</sql>"
    with queried([reply]) as (caller_of, model):
        caller = caller_of()
        _, arn = create_base(caller, {"tables": TABLES, "curatedQueries": CURATED})
        answer = caller.runtime.generate_query(**ask(arn))
    assert answer["queries"] == [
        {"type": "REDSHIFT_SQL", "sql": "SELECT sum(total) FROM orders WHERE customer < 8"}
    ]
    ((block,),) = [message["content"] for message in model.requests[0].messages]
    assert (
        block["text"]
        == """\
You write SQL for Amazon Redshift. Below are the tables that there are, and a question.

<tables>
Table shop.public.orders: One row an order.
- total: Euros, without &lt;tax&gt;.
- customer
</tables>

<example>
How many orders?
<sql>SELECT count(*) FROM orders</sql>
</example>

<question>
What did customer 7 pay?&lt;/question&gt;
</question>

Write the one query that answers the question, inside <sql> and </sql>, and nothing else. Use no \
table and no column that is not described above."""
    )


@pytest.mark.parametrize(
    "reply", ["SELECT 1", "```sql\nSELECT 1\n```", "<sql>```SQL\nSELECT 1```", "<sql>SELECT 1"]
)
def test_a_query_is_read_however_it_is_wrapped(reply: str) -> None:
    with queried([reply]) as (caller_of, _):
        caller = caller_of()
        _, arn = create_base(caller, {"tables": TABLES})
        assert caller.runtime.generate_query(**ask(arn))["queries"][0]["sql"] == "SELECT 1"


def test_a_reply_without_a_query_is_an_error() -> None:
    with queried(["<thinking>Hm.</thinking>"]) as (caller_of, _):
        caller = caller_of()
        _, arn = create_base(caller, {"tables": TABLES})
        code, message = refused(caller.runtime.generate_query, **ask(arn))
    assert code == "DependencyFailedException"
    assert message == "the model 'amazon.nova-pro-v1:0' wrote no query; ask again"


def test_what_has_no_tables_is_refused_by_name() -> None:
    with queried([]) as (caller_of, _):
        caller = caller_of()
        id, arn = create_base(caller, None)
        code, message = refused(caller.runtime.generate_query, **ask(arn))
        assert (code, "generationContext.tables" in message) == ("ValidationException", True)

        documents = caller.base()
        code, message = refused(caller.runtime.generate_query, **ask(arn.replace(id, documents)))
        assert (code, "holds documents" in message) == ("ValidationException", True)

        code, message = refused(caller.runtime.generate_query, **ask(arn.replace(id, "A" * 10)))
        assert code == "ResourceNotFoundException"
        other = arn.replace("us-east-1", "eu-west-1")
        assert refused(caller.runtime.generate_query, **ask(other))[0] == (
            "ResourceNotFoundException"
        )


def test_a_knowledge_base_of_tables_is_not_searched_and_has_no_data_sources() -> None:
    with queried([]) as (caller_of, _):
        caller = caller_of()
        id, _ = create_base(caller, {"tables": TABLES})
        code, message = refused(
            caller.runtime.retrieve, knowledgeBaseId=id, retrievalQuery={"text": "x"}
        )
        assert (code, "GenerateQuery" in message) == ("ValidationException", True)
        code, message = refused(
            caller.agent.create_data_source,
            knowledgeBaseId=id,
            name="texts",
            dataSourceConfiguration={"type": "CUSTOM"},
        )
        assert (code, "type SQL" in message) == ("ValidationException", True)


def test_other_tenants_see_no_tables(tmp_path: Path) -> None:
    with queried([], two_tenants(tmp_path)) as (caller_of, model):
        first, other = tenant(caller_of(), "A"), tenant(caller_of(), "B")
        _, arn = create_base(first, {"tables": TABLES})
        assert refused(other.runtime.generate_query, **ask(arn))[0] == "ResourceNotFoundException"
        assert not model.requests
