"""The evaluation of conversations: its file fits the examples, and its judge can be failed."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from evals.asking import YES
from evals.checks import is_writing
from evals.conversation_file import read_conversations
from evals.conversations import Totals, main, run, turns_of
from orchestrator import ValidationError
from orchestrator.models.example_classifier import EXAMPLES_FILE, CategoryExamples
from orchestrator.prompts import load_dialect
from orchestrator.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "evals/conversations.jsonl"
SHARED = ROOT.parent / "shared/golden/conversations.jsonl"
CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
CONVERSATIONS = read_conversations(OURS)
ids = itertools.count(1)


# -- a model that does what is expected ----------------------------------------------------------


def operations(folder):
    """The agent's operations as expectations name them: the tool's name and the arguments."""
    group = yaml.safe_load((folder / "agent.yaml").read_text())["actionGroups"][0]
    name = group["actionGroupName"]
    if "functionSchema" in group:
        functions = group["functionSchema"]["functions"]
        return {
            one["name"]: (f"{name}__{one['name']}", set(one.get("parameters", {})))
            for one in functions
        }
    paths = yaml.safe_load((folder / group["apiSchema"]["file"]).read_text())["paths"]
    return {
        f"{verb.upper()} {path}": (f"{verb.upper()}__{name}__{one['operationId']}", _names(one))
        for path, verbs in paths.items()
        for verb, one in verbs.items()
    }


def _names(operation):
    bodies = operation.get("requestBody", {}).get("content", {}).values()
    return {one["name"] for one in operation.get("parameters", [])} | {
        name for body in bodies for name in body["schema"]["properties"]
    }


def use(tool, arguments):
    return {"toolUse": {"toolUseId": f"t-{next(ids)}", "name": tool, "input": arguments}}


def call(conversation, expected):
    tool, _ = operations(conversation.folder)[expected["name"]]
    return [use(tool, expected.get("arguments", {}))]


def answer(turn):
    if turn.get("refuses"):
        return "<answer>I can only help with what I am here for.</answer>"
    facts = "; ".join(group[0] for group in turn.get("contains", []))
    return f"<answer>{facts or 'Gladly'}.</answer>"


def replies(conversation, *, confirming=False):
    """The replies of a model that makes each expected call, and answers with the facts."""
    script = []
    for turn in conversation.turns:
        for expected in turn.get("calls", []):
            if confirming and is_writing(expected["name"]):
                values = ", ".join(expected["arguments"].values())
                script.append([use("user__askuser", {"question": f"Shall I do it ({values})?"})])
            script.append(call(conversation, expected))
        if turn.get("asks"):
            script.append([use("user__askuser", {"question": "Which one do you mean?"})])
        else:
            script.append(answer(turn))
    return script


def hold(conversation, script):
    (held,) = run([conversation], ScriptedModel(script, CLAUDE), Console(quiet=True))
    return held.turns


def failed(turn):
    return [failure.check for failure in turn.failures]


# -- the file ------------------------------------------------------------------------------------

KINDS = {
    *("ask_then_value", "correction", "follow_up", "list_then_pick", "unknown_id", "out_of_scope"),
    *("vague", "must_not_act", "write_with_wish", "refusal_to_confirm", "thanks", "who_are_you"),
    *("german", "chinese"),
}


def test_there_are_conversations_of_all_kinds():
    turns = [turn for one in CONVERSATIONS for turn in one.turns]
    kinds = Counter(kind for one in CONVERSATIONS for kind in one.kinds)
    assert (len(CONVERSATIONS), len(turns)) == (10, 53)
    assert set(kinds) == KINDS
    assert (kinds["german"], kinds["chinese"]) == (2, 1)
    assert {one.agent for one in CONVERSATIONS} == {"starter", "insurance", "hr"}


def test_no_turn_is_one_of_the_examples_that_sort_inputs():
    shipped = CategoryExamples.read(*load_dialect("local").read(EXAMPLES_FILE))
    seeds = {text.lower() for some in shipped.texts.values() for text in some}
    assert seeds.isdisjoint(t["say"].lower() for one in CONVERSATIONS for t in one.turns)


def by_id(conversations):
    return pytest.mark.parametrize("conversation", conversations, ids=lambda one: one.id)


@by_id(CONVERSATIONS)
def test_the_expected_calls_are_operations_of_the_agent(conversation):
    known = operations(conversation.folder)
    for turn in conversation.turns:
        for expected in turn.get("calls", []):
            assert set(expected.get("arguments", {})) <= known[expected["name"]][1]


SHARED_ONES = read_conversations(SHARED) if SHARED.exists() else []


@by_id([*CONVERSATIONS, *SHARED_ONES])
def test_who_makes_the_calls_and_tells_the_facts_is_right(conversation):
    # No fact is an invention: each comes from the data, by the calls that the turns expect.
    turns = hold(conversation, replies(conversation))
    assert [turn.failures for turn in turns] == [[] for _ in conversation.turns]


@by_id(CONVERSATIONS)
def test_who_asks_before_each_change_is_right_too(conversation):
    turns = hold(conversation, replies(conversation, confirming=True))
    assert [turn.failures for turn in turns] == [[] for _ in conversation.turns]
    writing = [
        any(is_writing(one["name"]) for one in turn.get("calls", [])) for turn in conversation.turns
    ]
    assert [YES in turn.said for turn in turns] == writing


@by_id(CONVERSATIONS)
def test_who_only_says_yes_fails_wherever_something_is_expected(conversation):
    turns = hold(conversation, ["<answer>Gladly.</answer>"] * len(conversation.turns))
    demanding = ("calls", "contains", "asks", "refuses")
    assert [turn.right for turn in turns] == [
        not any(turn.get(name) for name in demanding) for turn in conversation.turns
    ]


@by_id([one for one in CONVERSATIONS if one.agent == "hr"])
def test_who_books_unasked_has_a_side_effect_in_each_turn(conversation):
    days = [f"2027-11-{n:02}" for n in range(1, len(conversation.turns) + 1)]
    script = [
        reply
        for day in days
        for reply in (
            [use("vacations__request_vacation", {"start_date": day, "end_date": day})],
            "<answer>Gladly.</answer>",
        )
    ]
    turns = hold(conversation, script)
    assert all("side_effect" in failed(turn) for turn in turns)
    assert Totals.sum(turns).side_effects == len(turns)


def test_the_conversation_of_the_page_is_one(tmp_path):
    page = (ROOT / "evals/README.md").read_text().partition("## Conversations")[2]
    written = json.loads(page.partition("```json")[2].partition("```")[0])
    one = conversation(tmp_path, *written.pop("turns"), **written)
    assert [turn.failures for turn in hold(one, replies(one))] == [[], []]


# -- the judge -----------------------------------------------------------------------------------


def conversation(tmp_path, *turns, **members):
    file = tmp_path / "some.jsonl"
    whole = {"id": "one", "agent": "insurance", "turns": [*turns], **members}
    file.write_text(json.dumps(whole) + "\n")
    (only,) = read_conversations(file)
    return only


REMIND = {"name": "POST /reminders", "arguments": {"claimId": "claim-741"}}


def reminding(claim="claim-741"):
    return [use("POST__claims__sendReminder", {"claimId": claim})]


@pytest.mark.parametrize(
    ("turn", "script", "checks"),
    [
        ({"calls": [REMIND]}, ["<answer>Sent.</answer>"], ["calls"]),
        (
            {"calls": [REMIND]},
            [reminding("claim-458"), "<answer>Sent.</answer>"],
            ["calls", "side_effect"],
        ),
        # Asked for once, sent twice.
        (
            {"calls": [REMIND]},
            [reminding(), reminding(), "<answer>Sent.</answer>"],
            ["side_effect"],
        ),
        ({}, [reminding(), "<answer>Sent.</answer>"], ["side_effect"]),
        (
            {"no_calls": True},
            [[use("GET__claims__listClaims", {})], "<answer>Ok.</answer>"],
            ["no_calls"],
        ),
        ({}, ["<answer>It comes on Monday.</answer>"], ["invented"]),
        ({"contains": [["two", "2"]]}, ["<answer>Three.</answer>"], ["contains"]),
        ({"lacks": ["three"]}, ["<answer>Three.</answer>"], ["lacks"]),
        ({"asks": True}, ["<answer>Done.</answer>"], ["asks"]),
        ({"refuses": True}, ["<answer>It is sunny.</answer>"], ["refuses"]),
        ({"no_refusal": True}, ["<answer>I can only help with claims.</answer>"], ["no_refusal"]),
        ({}, [], ["error"]),  # a script that has ended is the model's error
    ],
)
def test_each_check_can_fail(tmp_path, turn, script, checks):
    (judged,) = hold(conversation(tmp_path, {"say": "Hello", **turn}), script)
    assert failed(judged) == checks


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        ({"refuses": True}, "Sorry, that is not my line."),
        ({"refuses": True}, "I’m not able to tell jokes."),
        ({"refuses": True}, "Ich kann Ihnen nur bei Schadensfällen helfen."),
        ({"refuses": True}, "抱歉，我只能帮助您处理理赔。"),
        ({"no_refusal": True}, "I'm sorry to hear that. Which claim is it?"),
        ({"no_refusal": True}, "Hello! I help with claims."),
        ({"asks": True}, "Bitte nennen Sie mir die Nummer."),
        ({"asks": True}, "请提供编号。"),
        ({"contains": [["13"]]}, "That makes 13, or 1042?"),
    ],
)
def test_a_right_answer_passes_in_other_words(tmp_path, turn, text):
    said = {"say": "Hello 13", **turn}
    (judged,) = hold(conversation(tmp_path, said), [f"<answer>{text}</answer>"])
    assert judged.failures == []


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        ("Shall I go ahead with send reminder (claim-741)?", True),
        ("Do you want to send it?", True),
        ("Claim 741, then. Is it claim-741?", True),
        ("Soll ich die Erinnerung senden?", True),
        ("要我发送提醒吗？", True),
        ("Please confirm the reminder.", True),
        ("Should I send it to the holder of the claim which you named?", True),
        ("Which claim do you want to send it for?", False),
        ("Please confirm which claim it is.", False),
        ("Which claim is it?", False),
        ("Could you tell me the id of the claim?", False),
        ("Would you like me to do anything else?", False),
        ("I will send it.", False),
    ],
)
def test_the_user_says_yes_once_to_a_call_that_is_expected(tmp_path, question, yes):
    wanted = {"say": "Remind the owner of claim-741.", "calls": [REMIND]}
    script = [f"<answer>{question}</answer>", reminding(), "<answer>Sent.</answer>"]
    (turn,) = hold(conversation(tmp_path, wanted), script)
    assert (turn.said == [wanted["say"], YES]) is yes
    assert turn.right is yes
    assert turn.answer == ("Sent." if yes else question)


def test_nobody_says_yes_to_a_call_that_is_not_expected(tmp_path):
    script = ["<answer>Shall I send a reminder for claim-741?</answer>", "<answer>Ok.</answer>"]
    turns = hold(conversation(tmp_path, {"say": "claim-741"}, {"say": "No."}), script)
    assert [turn.said for turn in turns] == [["claim-741"], ["No."]]
    assert [turn.failures for turn in turns] == [[], []]


CONFIRMING = """
agentName: reminders
instruction: You send reminders to the holders of insurance policies.
foundationModel: local
actionGroups:
  - actionGroupName: mail
    functionSchema:
      functions:
        - name: send_reminder
          description: Send a reminder.
          requireConfirmation: ENABLED
          parameters:
            claim: {description: The claim., type: string, required: true}
    actionGroupExecutor: {lambda: handler.py}
"""
HANDLER = """
def lambda_handler(event, context):
    body = {"TEXT": {"body": "sent"}}
    return {"messageVersion": "1.0", "response": {"actionGroup": event["actionGroup"],
            "function": event["function"], "functionResponse": {"responseBody": body}}}
"""


@pytest.mark.parametrize(
    ("claim", "said", "checks"), [("857", "Yes.", []), ("858", "No.", ["calls"])]
)
def test_an_agent_of_another_folder_has_expected_calls_confirmed(tmp_path, claim, said, checks):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/agent.yaml").write_text(CONFIRMING)
    (tmp_path / "mine/handler.py").write_text(HANDLER)
    wanted = {"name": "send_reminder", "arguments": {"claim": "claim-857"}}
    one = conversation(tmp_path, {"say": "Remind 857.", "calls": [wanted]}, agent="mine")
    script = [[use("mail__send_reminder", {"claim": claim})], "<answer>Done.</answer>"]
    (turn,) = hold(one, script)
    assert (turn.said, failed(turn)) == (["Remind 857.", said], checks)


def test_a_call_that_waits_for_a_result_of_its_caller_is_an_error(tmp_path):
    (tmp_path / "mine").mkdir()
    text = CONFIRMING.replace("{lambda: handler.py}", "{customControl: RETURN_CONTROL}")
    text = text.replace("          requireConfirmation: ENABLED\n", "")
    (tmp_path / "mine/agent.yaml").write_text(text)
    one = conversation(tmp_path, {"say": "Remind 857."}, agent="mine")
    (turn,) = hold(one, [[use("mail__send_reminder", {"claim": "857"})]])
    assert "error" in failed(turn)


def test_no_conversation_sees_what_another_one_did(tmp_path):
    day = {"start_date": "2027-10-04", "end_date": "2027-10-04"}
    wanted = {"name": "request_vacation", "arguments": day}
    turn = {"say": "Book 2027-10-04.", "calls": [wanted], "contains": [["V-23"]]}
    one = {"agent": "hr", "attributes": {"employeeId": "e-1101"}, "turns": [turn]}
    file = tmp_path / "two.jsonl"
    file.write_text("\n".join(json.dumps({"id": name, **one}) for name in "ab"))
    booking = [[use("vacations__request_vacation", day)], "<answer>V-23.</answer>"]
    model = ScriptedModel(booking * 2, CLAUDE)
    done = run(read_conversations(file), model, Console(quiet=True))
    assert [turn.failures for turn in turns_of(done)] == [[], []]
    assert len(model.requests[2].messages) == 1


# -- the command ---------------------------------------------------------------------------------


def command(tmp_path, *arguments):
    script = tmp_path / "script.jsonl"
    lines = ["<answer>I can only help with orders.</answer>", "<answer>It is Monday.</answer>"]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return main(["--model", f"scripted:{script}", *arguments])


TURNS = [{"say": "A joke!", "refuses": True, "no_calls": True}, {"say": "And 1042?"}]


def test_the_report_has_every_turn_and_the_totals(tmp_path, capsys):
    conversation(tmp_path, *TURNS, agent="starter", kinds=["joke"])
    result = tmp_path / "result.json"
    file = str(tmp_path / "some.jsonl")
    assert command(tmp_path, file, "--only", "joke", "--json", str(result), "--min", "1") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("right one 1/2 ")
    assert "one (starter): 1 of 2 turns right" in shown
    assert "✗ invented: Monday" in shown
    told = json.loads(result.read_text())
    (held,) = told.pop("conversations")
    assert all(told.pop(name) >= 0 for name in ("median_seconds", "first_turn_seconds"))
    model = f"scripted:{tmp_path / 'script.jsonl'}"
    assert told == {"model": model, "of": 2, "right": 1, "side_effects": 0, "invented": 1}
    assert [turn.pop("seconds") >= 0 for turn in held["turns"]] == [True, True]
    right = {"said": ["A joke!"], "calls": [], "answer": "I can only help with orders."}
    wrong = {"said": ["And 1042?"], "calls": [], "answer": "It is Monday."}
    failure = {"check": "invented", "detail": "Monday"}
    assert held == {
        "id": "one",
        "agent": "starter",
        "kinds": ["joke"],
        "turns": [
            {**right, "asked": False, "failures": [], "right": True},
            {**wrong, "asked": False, "failures": [failure], "right": False},
        ],
    }


def test_too_few_right_turns_fail_the_command(tmp_path):
    conversation(tmp_path, *TURNS, id="[/]", agent="starter")  # an id is no markup
    assert command(tmp_path, str(tmp_path / "some.jsonl"), "--min", "2") == 1


def test_a_kind_that_no_conversation_has_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command(tmp_path, "--only", "jokes")
    assert "has the kind, agent or id 'jokes'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "some.jsonl:2: Expecting property name"),
        ("[]", "some.jsonl:2: the conversation is no JSON object"),
        ('{"id": "x", "agent": "hr"}', "the conversation has no 'turns'"),
        ('{"id": "x", "agent": "hr", "turns": []}', "'turns' of the conversation cannot be []"),
        ('{"id": "x", "agent": "zoo", "turns": [{"say": "a"}]}', "there is no agent 'zoo'"),
        ('{"id": "x", "agent": "hr", "turns": [{"say": " "}]}', "'say' of turn 1 cannot be"),
        (
            '{"id": "x", "agent": "hr", "turns": [{"say": "a", "contians": [["b"]]}]}',
            "turn 1 has 'contians'; there are: say, calls,",
        ),
        (
            '{"id": "x", "agent": "hr", "turns": [{"say": "a", "contains": ["b"]}]}',
            "'contains' of turn 1 cannot be",
        ),
        (
            '{"id": "x", "agent": "hr", "turns": [{"say": "a", "calls": [{"arguments": {}}]}]}',
            "a call of turn 1 has no 'name'",
        ),
        (
            '{"id": "x", "agent": "hr", "turns": [{"say": "a", "refuses": true, '
            '"no_refusal": true}]}',
            "turn 1 has both 'refuses' and 'no_refusal'",
        ),
        ('{"id": "one", "agent": "hr", "turns": [{"say": "a"}]}', "the id 'one' is on an earlier"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path, line, message):
    file = tmp_path / "some.jsonl"
    file.write_text('{"id": "one", "agent": "hr", "turns": [{"say": "a"}]}\n' + line + "\n")
    with pytest.raises(ValidationError) as error:
        read_conversations(file)
    assert message in str(error.value)
    assert f"{file}:2: " in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command(tmp_path, str(tmp_path / "none.jsonl"))
    assert "none.jsonl' cannot be read: No such file" in capsys.readouterr().err
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff")
    with pytest.raises(ValidationError, match="is not in UTF-8"):
        read_conversations(tmp_path / "bytes.jsonl")
