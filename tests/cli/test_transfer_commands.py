"""`pull`, `push`, `diff` and `import`, with a server of our own at the other end."""

import json
from pathlib import Path

import pytest
import yaml

from orchestrator.server.agents import store
from orchestrator.server.serving import serve_in_thread
from orchestrator.server.settings import Settings
from orchestrator.server.state import ServerState
from orchestrator.testing import ScriptedModel

CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"
FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:orders"
AGENT = {
    "agentName": "books",
    "instruction": "You order books for people, and you pay for them when they have agreed.",
    "foundationModel": CLAUDE,
    "actionGroups": [
        {
            "actionGroupName": "shop",
            "functionSchema": {"functions": [{"name": "order", "description": "Order a book."}]},
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
        }
    ],
}


@pytest.fixture
def url(place, canaries, monkeypatch):
    """An empty server, where preparing an agent takes a moment: push has to look twice."""
    monkeypatch.setattr(store, "PREPARING_SECONDS", 0.05)
    settings = Settings(port=0, shutdown_seconds=1.0)
    with ServerState(settings, models={"*": ScriptedModel([], CLAUDE)}) as world:
        with serve_in_thread(world) as address:
            yield address


@pytest.fixture
def books(place):
    folder = place / "books"
    folder.mkdir()
    save(AGENT)
    return folder


def save(data):
    Path("books/agent.yaml").write_text(yaml.safe_dump(data, sort_keys=False))


@pytest.fixture
def there(run, url):
    """Runs a verb against the server."""
    return lambda *words: run(*words, "--endpoint-url", url)


@pytest.fixture
def pushed(there, books):
    done = there("push", books, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["agentId"]


def test_push_tells_what_it_does(there, books):
    done = there("push", "books", "--alias", "live")
    assert done.exit_code == 0
    *steps, last = done.stdout.splitlines()
    assert steps == [
        "books: created the agent",
        "books: created the action group 'shop'",
        "books: prepared the agent",
        "books: created the alias 'live'",
    ]
    assert last.startswith("agent ") and ", alias " in last
    again = there("push", "books", "--alias", "live")
    assert again.stdout.splitlines() == ["there is nothing to do", last]


def test_a_dry_run_does_nothing(there, books):
    done = there("push", "books", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert told["dry_run"] is True
    assert told["steps"][0] == {"agent": "books", "step": "would create the agent"}
    assert told["agentId"] is None
    assert there("diff", "books").exit_code == 2


def test_what_bedrock_does_not_have_is_told_with_its_place(there, books):
    save({**AGENT, "limits": {"tokens": 100}})
    refused = there("push", "books")
    assert refused.exit_code == 2
    assert "books/agent.yaml:13:" in refused.stderr
    assert "Bedrock has no limits of a turn" in refused.stderr
    done = there("push", "books", "--skip-unsupported")
    assert done.exit_code == 0
    assert "Bedrock has no limits of a turn" in done.stderr


def test_a_function_can_be_named(there, books, pushed):
    save(
        {
            **AGENT,
            "actionGroups": [
                {**AGENT["actionGroups"][0], "actionGroupExecutor": {"lambda": "shop.py"}}
            ],
        }
    )
    Path("books/shop.py").write_text("def lambda_handler(event, context): ...")
    assert there("push", "books").exit_code == 2
    assert there("push", "books", "--lambda", "shop").exit_code == 2
    done = there("push", "books", "--lambda", f"shop={FUNCTION}")
    assert "books: updated the action group 'shop'" in done.stdout
    assert FUNCTION in done.stderr


def test_how_far_it_came_is_told(there, books):
    broken = {
        "actionGroupName": "broken",
        "apiSchema": {"payload": "no document"},
        "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
    }
    save({**AGENT, "actionGroups": [*AGENT["actionGroups"], broken]})
    stopped = there("push", "books", "--json")
    assert stopped.exit_code == 1
    told = json.loads(stopped.stdout)
    assert told["error"]["bedrock_name"] == "ValidationException"
    assert [it["step"] for it in told["steps"]] == [
        "created the agent",
        "created the action group 'shop'",
    ]
    assert "run the same command again" in stopped.stderr
    save(AGENT)
    assert there("push", "books").stdout.splitlines()[0] == "books: prepared the agent"


def test_a_server_that_is_not_there(run, books, monkeypatch):
    # Without credentials, of which no metadata service is asked for a server on this machine.
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "nothing")
    gone = run("push", "books", "--endpoint-url", "http://127.0.0.1:9")
    assert gone.exit_code == 1
    assert "could not be reached" in gone.stderr
    assert "run the same command again" not in gone.stderr


def test_pull_writes_a_folder_that_push_leaves_alone(there, pushed):
    done = there("pull", pushed, "--into", "pulled")
    assert done.exit_code == 0
    assert done.stdout == "wrote pulled/agent.yaml\n"
    assert there("push", "pulled").stdout.startswith("there is nothing to do")
    again = there("pull", pushed, "--into", "pulled")
    assert again.stdout == "pulled is as it was: there is nothing to do\n"


def test_pull_takes_the_agents_name(there, pushed, books):
    books.rename("mine")
    assert there("pull", pushed, "--json").exit_code == 0
    assert Path("books/agent.yaml").read_text().startswith("agentName: books\nagentId: ")


def test_pull_keeps_what_was_changed(there, pushed):
    there("pull", pushed, "--into", "pulled")
    file = Path("pulled/agent.yaml")
    mine = file.read_text().replace("You order", "You sell")
    file.write_text(mine)
    refused = there("pull", pushed, "--into", "pulled")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert "-instruction: You sell" in refused.stdout
    assert "+instruction: You order" in refused.stdout
    assert file.read_text() == mine
    assert there("pull", pushed, "--into", "pulled", "--force").exit_code == 0
    assert "You order" in file.read_text()


def test_pull_removes_what_the_agent_does_not_have_any_more(there, pushed):
    there("pull", pushed, "--into", "pulled")
    left = Path("pulled/templates/orchestration.txt")
    left.parent.mkdir()
    left.write_text("An old prompt.")
    refused = there("pull", pushed, "--into", "pulled")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert "-An old prompt." in refused.stdout
    assert there("diff", "pulled").exit_code == 1
    done = there("pull", pushed, "--into", "pulled", "--force")
    assert done.stdout == "removed pulled/templates/orchestration.txt\n"
    assert not left.exists()
    assert there("diff", "pulled").exit_code == 0
    left.write_text("An old prompt.")
    told = json.loads(there("pull", pushed, "--into", "pulled", "--force", "--json").stdout)
    assert (told["written"], told["removed"]) == ([], ["templates/orchestration.txt"])


def test_json_of_pull(there, pushed):
    told = json.loads(there("pull", pushed, "--into", "pulled", "--json").stdout)
    assert told == {
        "folder": "pulled",
        "written": ["agent.yaml"],
        "files": ["agent.yaml"],
        "notes": [],
    }


def test_diff_has_the_exit_codes_of_diff(there, pushed):
    same = there("diff", "books")
    assert (same.exit_code, same.stdout) == (0, f"no difference from the agent {pushed}\n")
    save({**AGENT, "description": "Books."})
    differs = there("diff", "books", pushed)
    assert differs.exit_code == 1
    assert differs.stdout.splitlines()[:2] == ["--- a/agent.yaml", "+++ b/agent.yaml"]
    assert "+description: Books." in differs.stdout
    told = there("diff", "books", "--json")
    assert told.exit_code == 1
    document = json.loads(told.stdout)
    assert document["agentId"] == pushed and document["same"] is False
    [change] = document["changes"]
    assert change["path"] == "agent.yaml"
    assert "Books." in change["here"] and "Books." not in change["there"]
    assert there("diff", "nothing").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("pull", "ABCDEFGHIJ", "--alias", "KLMNOPQRST", "--version", "1"),
        ("diff", "books", "--alias", "KLMNOPQRST", "--version", "1"),
        ("push", "books", "--create", "--agent-id", "ABCDEFGHIJ"),
        ("pull", "no-id"),
        ("pull", "ABCDEFGHIJ"),
    ],
)
def test_wrong_usage(there, books, words):
    refused = there(*words)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: ")


TEMPLATE = {
    "Resources": {
        name: {
            "Type": "AWS::Bedrock::Agent",
            "Properties": {"AgentName": called, "FoundationModel": CLAUDE, "Instruction": "Help."},
        }
        for name, called in (("One", "books"), ("Two", "films"), ("Three", "books"))
    }
}


def test_import_takes_one_of_many_or_all(run, place):
    Path("t.json").write_text(json.dumps(TEMPLATE))
    listed = run("import", "t.json")
    assert listed.exit_code == 2
    assert all(
        name in listed.stderr for name in ("One", "Two", "Three", "films", "--agent", "--all")
    )
    one = run("import", "t.json", "--name", "Two")
    assert one.stdout.startswith("films → films  t.json:") and Path("films/agent.yaml").is_file()
    every = run("import", "t.json", "--all", "--into", "agents", "--json")
    assert [it["folder"] for it in json.loads(every.stdout)["agents"]] == [
        "agents/books",
        "agents/films",
        "agents/books-2",
    ]
    assert run("import", "t.json", "--name", "books").exit_code == 2


def test_import_tells_what_is_not_known(run, place):
    resources = TEMPLATE["Resources"]["One"]
    properties = {
        **resources["Properties"],
        "CustomerEncryptionKeyArn": {"Fn::GetAtt": ["R", "Arn"]},
    }
    template = {"Resources": {"One": {**resources, "Properties": properties}}}
    Path("t.json").write_text(json.dumps(template))
    done = run("import", "t.json", "--into", "made")
    assert done.exit_code == 0
    assert "R.Arn is known only when deployed" in done.stdout
    again = run("import", "t.json", "--into", "made").stdout
    assert again.startswith("books → made (as it was)")
    Path("made/agent.yaml").write_text("agentName: mine\n")
    refused = run("import", "t.json", "--into", "made")
    assert refused.exit_code == 2 and "-agentName: mine" in refused.stdout
    assert run("import", "nothing.json").exit_code == 2
