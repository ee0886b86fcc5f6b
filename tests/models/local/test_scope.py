"""What an agent is for, told by the real embedding model."""

from __future__ import annotations

from pathlib import Path

import pytest
from left_out import sampled

from orchestrator.models.embeddings import MiniLM
from orchestrator.models.example_classifier import EXAMPLES_FILE, CategoryExamples
from orchestrator.models.scope import FAR, build_scope

pytestmark = pytest.mark.local("minilm")

FILE = Path(__file__).parents[3] / "templates" / "local" / EXAMPLES_FILE
EXAMPLES = CategoryExamples.read(FILE.read_text(encoding="utf-8"), FILE).texts
FUNCTION = {"name": "get_repair", "description": "Get the state of a repair of a bicycle."}


@pytest.mark.parametrize(
    ("text", "inside"),
    sampled(
        [
            ("What can you do?", True),
            ("What can you help me with?", True),
            ("When is my bicycle ready?", True),
            ("Hello, how are you?", True),
            ("What can you cook?", False),
            ("Who won the match yesterday?", False),
            ("Write a poem about the sea.", False),
        ]
    ),
)
def test_questions_about_the_agent_itself_are_in_its_scope(text: str, inside: bool) -> None:
    instruction = "You help the customers of a bicycle workshop with their repairs."
    distance = build_scope(instruction, [FUNCTION], EXAMPLES, MiniLM()).measure(text)
    assert distance is not None
    assert (distance < FAR) is inside


@pytest.mark.parametrize(
    ("text", "collaborator"),
    [
        ("Can somebody look at my brakes?", "workshop"),
        ("When is my bicycle repaired?", "workshop"),
        ("Which bicycles may I rent on Sunday?", "rental"),
        ("I want my money back for the helmet", "shop"),
        ("Hello, how are you?", ""),
        ("And what about the other one?", ""),
        ("Wann ist mein Fahrrad fertig?", ""),
    ],
)
def test_only_what_is_certainly_a_collaborators_matter_is_sent_to_it(
    text: str, collaborator: str
) -> None:
    team = {
        "workshop": "Repairs bicycles, and tells when a repair of brakes or wheels is ready.",
        "rental": "Tells which bicycles can be rented, and for how much a day.",
        "shop": "Sells helmets and locks, and gives money back.",
    }
    scope = build_scope("You help customers.", [FUNCTION], EXAMPLES, MiniLM(), team)
    assert scope.find_collaborator(text) == collaborator
