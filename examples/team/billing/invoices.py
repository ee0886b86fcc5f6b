"""Invoices of the signed-in customer, as plain Python functions."""

import csv
from pathlib import Path

from orchestrator import action
from orchestrator.actions import CallContext

FILE = Path(__file__).with_name("data") / "invoices.csv"


@action
def list_invoices(context: CallContext, unpaid_only: bool = False) -> list:
    """List the customer's invoices, with amount, due date and whether they are paid.

    Args:
        unpaid_only: Leave out what is paid.
    """
    policy = context.session_attributes["policyId"]
    with FILE.open(newline="", encoding="utf-8") as file:
        return [
            {name: row[name] for name in ("invoice", "amountEUR", "due", "paid")}
            for row in csv.DictReader(file)
            if row["policy"] == policy and not (unpaid_only and row["paid"] == "yes")
        ]
