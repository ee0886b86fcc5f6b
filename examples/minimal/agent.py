"""The smallest agent: two Python functions and an instruction.

    python examples/minimal/agent.py "When is the library open on Saturday?"

The model is the embedded one; MODEL or --model chooses another, for example
`--model anthropic.claude-3-5-sonnet-20240620-v1:0` or `--model openai:llama3.1@http://localhost:11434/v1`.
"""

import argparse
import os

from orchestrator import ActionGroup, Agent, action

BOOKS = {"Dune": 2, "Emma": 0, "Ulysses": 1}
HOURS = {"saturday": "10:00 to 14:00", "sunday": "closed"}


@action
def opening_hours(day: str) -> str:
    """Get the opening hours of the library on one day of the week.

    Args:
        day: Day of the week, for example Monday.
    """
    return HOURS.get(day.strip().lower(), "9:00 to 19:00")


@action
def copies_available(title: str) -> dict:
    """Get how many copies of a book can be borrowed now.

    Args:
        title: Title of the book.
    """
    return {"title": title, "copies": BOOKS.get(title.strip().title(), 0)}


def build(model="local"):
    return Agent(
        name="library",
        instruction="You answer visitors' questions about the town library in one short sentence.",
        model=model,
        action_groups=[ActionGroup("library", actions=[opening_hours, copies_available])],
    )


def main():
    parser = argparse.ArgumentParser(description="Ask the town library's agent.")
    parser.add_argument("question")
    parser.add_argument("--model", default=os.environ.get("MODEL", "local"))
    given = parser.parse_args()
    print(build(given.model).invoke(given.question))


if __name__ == "__main__":
    main()
