"""What the workbench's pictures show: examples, whose models answer what is written."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench_support import MODEL, answer

from orchestrator.models import ModelReply, ModelRequest
from orchestrator.models.base import Usage
from orchestrator.testing import ScriptedModel

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SESSION = "2026-11-26-101500"
CUSTOMER = {"policyId": "p-301"}
MISSING = "Which documents are still missing for the open claim of Elena Petrova?"
REMIND = "Please send her a reminder."
DAMAGE = "A pipe burst in my kitchen. Is my bill paid?"
GERMAN, NEW_RULE = "Wie hoch ist", "Answer in the language of the question."
_CLAIMS = json.loads((EXAMPLES / "insurance" / "data" / "claims.json").read_text())
AMOUNTS: Mapping[str, int] = {it["claimId"]: it["amountEUR"] for it in _CLAIMS[:9]}
LACKS = (
    "claim-857 of Elena Petrova still lacks three documents: the accident images, the driving "
    "licence and the vehicle registration."
)


def _use(name: str, thinking: str = "", **values: Any) -> list[dict[str, Any]]:
    use = {"toolUse": {"toolUseId": f"t-{name[-12:]}", "name": name, "input": values}}
    return [{"text": f"<thinking>{thinking}</thinking>"}, use] if thinking else [use]


def _send(*messages: tuple[str, str]) -> list[dict[str, Any]]:
    name = "AgentCommunication__sendMessage"
    return [
        {
            "toolUse": {
                "toolUseId": f"t-{who}",
                "name": name,
                "input": {"recipient": who, "content": text},
            }
        }
        for who, text in messages
    ]


def _say(thinking: str, text: str) -> str:
    return f"<thinking>{thinking}</thinking>{answer(text)}"


# What is answered to a question, call by call; the last entry of a question is its answer.
SCRIPT: Mapping[str, Sequence[Any]] = {
    MISSING: (
        _use(
            "GET__claims__listClaims",
            "The user names a policy holder and no claim, so I look for her open claims first.",
            status="open",
        ),
        _use(
            "GET__claims__listMissingDocuments",
            "Her open claim is claim-857. Now I need what is missing for it.",
            claimId="claim-857",
        ),
        _say("Now I can answer.", LACKS),
    ),
    REMIND: (
        _use("POST__claims__sendReminder", "The claim is claim-857.", claimId="claim-857"),
        _say("It went out.", "Elena Petrova was reminded of the three documents of claim-857."),
    ),
    DAMAGE: (
        _send(
            ("claims", "A pipe burst in the kitchen. Please open a claim."),
            ("billing", "Is there an unpaid invoice?"),
        ),
        answer("Your claim is H-1001; you pay 150 EUR of it. Invoice B-88 is still unpaid."),
    ),
    "A pipe burst in the kitchen.": (
        _use("claims__get_policy"),
        _use("claims__open_claim", damage="water", description="A pipe burst in the kitchen."),
        answer("Claim H-1001 is open. The customer pays 150 EUR."),
    ),
    "Is there an unpaid invoice?": (
        _use("invoices__list_invoices", unpaid_only=True),
        answer("Invoice B-88 over 212.40 EUR was due on 2026-10-01."),
    ),
}


class PacedModel(ScriptedModel):
    """Answers by the question and by how many results came since; as slowly as a model does."""

    def __init__(self, pace: float = 1.0) -> None:
        super().__init__([], MODEL, chunk=7)
        self._pace = pace

    def complete(self, request: ModelRequest) -> ModelReply:
        """What is written for the question."""
        question, results = _read_state(request)
        reply = self._choose(request, question, results)
        size = len(str(request.system)) + len(str(request.messages))
        made = ScriptedModel([reply], MODEL).complete(request)
        time.sleep(self._pace * (0.12 + (size % 17) / 60))
        made.usage = Usage(size // 4, len(str(made.content)) // 4, calls=1)
        return made

    def _choose(self, request: ModelRequest, question: str, results: int) -> Any:
        is_new = NEW_RULE in str(request.system)
        replies = next((it for key, it in SCRIPT.items() if key in question), None)
        if replies is not None:
            return replies[min(results, len(replies) - 1)]
        claim = next((it for it in AMOUNTS if it in question), "")
        if claim and (is_new or question.count(GERMAN) == 0):
            said = answer(f"{claim} is about {AMOUNTS[claim]:,} euros.")
            return said if results else _use("GET__claims__getClaimDetails", claimId=claim)
        return answer("Why did the claim cross the road?" if is_new else "I only help with claims.")


def _read_state(request: ModelRequest) -> tuple[str, int]:
    """The last question, and how many messages with results came after it."""
    results = 0
    for message in reversed(request.messages):
        blocks = message["content"]
        if message["role"] == "user" and any("toolResult" in it for it in blocks):
            results += 1
        elif message["role"] == "user":
            return str(blocks), results
    return "", results


def copy_example(name: str, folder: Path) -> Path:
    """An example in a folder of its own."""
    own = folder / name
    ignored = shutil.ignore_patterns(".orchestrator", "__pycache__", "tests")
    shutil.copytree(EXAMPLES / name, own, ignore=ignored)
    return own


def write_cases(folder: Path) -> None:
    """Cases of the insurance example, and a folder of templates that does better at some."""
    documents = {"calls": ["GET /claims/{claimId}/missing-documents"], "contains": ["driving"]}
    cases = [("missing", MISSING, "documents", documents)]
    cases += [("remind", REMIND, "reminders", {"contains": ["reminded"]})]
    cases += [("joke", "Tell me a joke.", "scope", {"contains": ["only help"]})]
    for claim, amount in AMOUNTS.items():
        expect = {"contains": [f"{amount:,}"], "max_seconds": 30}
        cases += [(f"{claim}-en", f"How much is {claim}?", "english", expect)]
        cases += [(f"{claim}-de", f"{GERMAN} {claim}?", "german", expect)]
    lines = [
        {"id": id, "question": question, "tags": [tag], "expect": expect}
        for id, question, tag, expect in cases
    ]
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(it)}\n" for it in lines))
    new = folder / "templates-new" / "tool-use" / "orchestration.json"
    new.parent.mkdir(parents=True)
    text = (EXAMPLES.parent / "templates" / "tool-use" / "orchestration.json").read_text()
    new.write_text(text.replace("<guidelines>\n", f"<guidelines>\n- {NEW_RULE}\n", 1))
