"""`orchestrator sessions create-table`: the table of DynamoDB that stores need."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orchestrator.cli.terminal import Terminal
from orchestrator.cli.verb import verb
from orchestrator.errors import ValidationError

Url = Annotated[
    str,
    typer.Option(
        "--state", metavar="URL", help="The table: dynamodb://TABLE?region=REGION, and so on."
    ),
]


@verb
def create_table(
    terminal: Terminal,
    state: Url,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print its definition, and ask AWS for nothing.")
    ] = False,
) -> None:
    """Make the table of DynamoDB for sessions, memories and what the server's API makes.

    One that is there is left as it is. With --print the definition is written as a resource of
    CloudFormation, for whoever makes tables in another way.

    [bold]Examples[/bold]
      $ orchestrator sessions create-table --state dynamodb://agents
      $ orchestrator sessions create-table --state URL --print > t.json
    """
    from orchestrator.support.dynamodb import DynamoTable
    from orchestrator.support.store_urls import DynamoUrl, parse_store

    url = parse_store(state)
    if not isinstance(url, DynamoUrl):
        raise ValidationError(
            f"--state {url.display_name!r} is no table of DynamoDB: give dynamodb://TABLE; other "
            "stores make what they need when they are opened"
        )
    table = DynamoTable(url, "the table")
    if only_print:
        terminal.document(_describe(table.name))
        return
    made = table.create()
    terminal.report(
        {"table": table.name, "created": made},
        f"made {url.display_name}" if made else f"{url.display_name} is there already",
    )


def _describe(name: str) -> dict[str, Any]:
    from orchestrator.support.dynamodb import TTL_ATTRIBUTE, read_definition

    lifetime = {"AttributeName": TTL_ATTRIBUTE, "Enabled": True}
    properties = {"TableName": name, **read_definition(), "TimeToLiveSpecification": lifetime}
    return {"Type": "AWS::DynamoDB::Table", "Properties": properties}
