"""`orchestrator lint`: definition, actions and templates."""

import json

import pytest

TEMPLATE = """{"anthropic_version": "bedrock-2023-05-31",
 "system": "$instruction$ $agent_scratchpd$",
 "messages": [{"role": "user", "content": "$question$"},
              {"role": "assistant", "content": "$agent_scratchpad$"}]}
"""


def codes(done):
    return [finding["code"] for finding in json.loads(done.stdout)["diagnostics"]]


def test_a_new_agent_is_clean(run, shop):
    done = run("lint", shop, "--strict")
    assert (done.exit_code, done.stdout) == (0, "nothing to complain about\n")


@pytest.mark.parametrize(
    "model",
    [
        "anthropic.claude-v2",
        "anthropic.claude-v2:1",
        "anthropic.claude-3-sonnet-20240229-v1:0",
        "amazon.titan-text-premier-v1:0",
        "amazon.nova-pro-v1:0",
        "meta.llama3-1-70b-instruct-v1:0",
        "deepseek.r1-v1:0",
        "local",
    ],
)
def test_shipped_templates_are_clean(run, shop, model):
    assert run("lint", shop, "--model", model).stdout == "nothing to complain about\n"


def test_a_finding_has_place_line_and_way_out(run, shop):
    (shop / "templates" / "orchestration.json").write_text(TEMPLATE)
    done = run("lint", shop, "--model=anthropic.claude-3-5-sonnet-20240620-v1:0")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("shop/templates/orchestration.json:2:27: warning: $agent_scratchpd$")
    assert lines[1] == '  2 |  "system": "$instruction$ $agent_scratchpd$",'
    assert lines[2] == "    |" + " " * 27 + "^"
    assert lines[3] == "    = did you mean $agent_scratchpad$?"
    assert lines[4] == "1 warning"
    assert done.exit_code == 0


def test_strict_fails_on_warnings(run, shop):
    (shop / "templates" / "orchestration.json").write_text(TEMPLATE)
    assert run("lint", shop, "--strict").exit_code == 1


def test_all_mistakes_of_all_files_are_told(run, shop):
    templates = shop / "templates"
    (templates / "claude-3").mkdir()
    (templates / "claude-3" / "post_processing.json").write_text('{"a": ')
    (templates / "tools.j2").write_text("{{ x.y() }}")
    (templates / "orchestraton.json").write_text("{}")
    (templates / "my-own").mkdir()
    file = shop / "agent.yaml"
    file.write_text(file.read_text().replace("foundationModel: local", "foundationModel: gpt-5"))
    done = run("lint", shop, "--json")
    assert done.exit_code == 1
    assert sorted(codes(done)) == [
        "broken-template",
        "model",
        "template",
        "template",
        "unused-template",
    ]


def test_models_are_looked_for_in_the_agents_folder_and_a_given_one_replaces_all(run, shop):
    file = shop / "agent.yaml"
    text = file.read_text()
    (shop / "replies.jsonl").write_text('"Hi"')
    file.write_text(
        text.replace("foundationModel: local", "foundationModel: scripted:replies.jsonl")
    )
    assert "model" not in codes(run("lint", shop, "--json"))
    prompts = "{promptConfigurations: [{promptType: ORCHESTRATION, foundationModel: gpt-5}]}"
    file.write_text(f"{text}\npromptOverrideConfiguration: {prompts}\n")
    assert "model" in codes(run("lint", shop, "--json"))
    assert "model" not in codes(run("lint", shop, "--json", "--model", "local"))


def test_a_broken_definition_does_not_hide_the_templates(run, shop):
    (shop / "agent.yaml").write_text("agentName: shop\ninstructions: Hi\n")
    (shop / "templates" / "orchestration.json").write_text("{")
    found = codes(run("lint", shop, "--json"))
    assert "broken-template" in found and len(found) >= 2


def test_schemas_and_executors_are_checked(run, shop):
    (shop / "action_groups" / "orders" / "openapi.yaml").write_text("openapi: 3.0.0\npaths: 7\n")
    done = run("lint", shop)
    assert done.exit_code == 1
    assert "openapi.yaml" in done.stdout


def test_a_definition_without_a_model_is_checked(run, place):
    (place / "agent.yaml").write_text(f"agentName: a\ninstruction: {'You help. ' * 8}\n")
    assert run("lint", ".").exit_code == 0


def test_the_caret_stays_under_its_place_in_a_long_line(run, shop):
    text = TEMPLATE.replace("$instruction$", "$instruction$ " + "words " * 400)
    (shop / "templates" / "orchestration.json").write_text(text)
    done = run("lint", shop, "--model=amazon.nova-pro-v1:0")
    _, source, caret, *_ = done.stdout.splitlines()
    assert len(source) < 140
    at = caret.index("^")
    assert source[at : at + 6] == "$agent"


def test_members_that_only_bedrock_sets_are_one_line(run, shop):
    file = shop / "agent.yaml"
    file.write_text(f"{file.read_text()}agentStatus: PREPARED\nagentVersion: DRAFT\n")
    shown = run("lint", shop).stdout.splitlines()
    assert shown[-2:] == [
        "info: 2 members that only Bedrock sets left out: agentStatus, agentVersion "
        "[read-only-member]",
        "2 for your information",
    ]
    assert codes(run("lint", shop, "--json")).count("read-only-member") == 2


def test_a_misspelt_placeholder_is_told_with_a_suggestion_and_noted_by_every_turn(
    run, shop, script
):
    text = TEMPLATE.replace("$question$", "$question$ $instrution$")
    (shop / "templates" / "orchestration.json").write_text(text)
    shown = run("lint", shop).stdout
    assert "$instrution$ is not a placeholder" in shown and "did you mean $instruction$?" in shown
    noted = [
        run("invoke", shop, "Hi", script("<answer>Hi.")),
        run("chat", shop, script("<answer>Hi."), input="Hi\n"),
    ]
    for done in noted:
        assert done.stdout == "Hi.\n"
        assert done.stderr.startswith("note: ")
        assert done.stderr.endswith("about the agent's templates; see `orchestrator lint shop`\n")
        assert done.stderr.count("\n") == 1


def test_a_template_without_the_question_is_told_by_every_turn(run, shop, script):
    text = TEMPLATE.replace("$question$", "Hi").replace(" $agent_scratchpd$", "")
    (shop / "templates" / "orchestration.json").write_text(text)
    assert run("lint", shop).exit_code == 1
    done = run("invoke", shop, "Hi", script("<answer>Hi."))
    assert done.stdout == "Hi.\n"
    assert done.stderr == (
        "note: the ORCHESTRATION template has no $question$: the model would not see the user's "
        "input; see `orchestrator lint shop`\n"
    )


def test_a_misspelt_folder_of_templates_is_told_with_a_suggestion(run, shop):
    (shop / "templates" / "claude3").mkdir()
    done = run("lint", shop)
    assert done.exit_code == 1
    assert done.stdout.startswith("shop/templates/claude3: error: there is no dialect 'claude3'")
    assert "did you mean 'claude-3'?" in done.stdout


def test_texts_about_memory_are_known_files(run, shop):
    text = '{"messages": [{"role": "user", "content": "$conversation$ $convresation$"}]}'
    (shop / "templates" / "memory_guideline.j2").write_text("- Remember.")
    (shop / "templates" / "memory_summarization.json").write_text(text)
    done = run("lint", shop, "--model", "anthropic.claude-3-sonnet-20240229-v1:0")
    assert done.stdout.splitlines()[0].startswith(
        "shop/templates/memory_summarization.json:1:59: warning: $convresation$"
    )
    assert "1 warning" in done.stdout and "unknown-file" not in done.stdout


def test_a_pattern_that_is_not_checked_is_told(run, shop):
    document = {
        "openapi": "3.0.0",
        "paths": {
            "/orders": {
                "get": {
                    "operationId": "find",
                    "parameters": [
                        {"name": "a", "in": "query", "schema": {"pattern": "^[A-Z]{2}$"}},
                        {
                            "name": "b",
                            "in": "query",
                            "schema": {"type": "array", "items": {"pattern": "^(?!x)"}},
                        },
                    ],
                }
            }
        },
    }
    members = {
        "agentName": "a",
        "foundationModel": "anthropic.claude-3-sonnet-20240229-v1:0",
        "instruction": "You help customers of the shop with their orders.",
        "actionGroups": [
            {
                "actionGroupName": "orders",
                "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
                "apiSchema": {"payload": json.dumps(document)},
            }
        ],
    }
    for file in shop.rglob("*.json"):
        file.unlink()
    (shop / "agent.yaml").write_text(json.dumps(members))
    done = run("lint", shop)
    assert done.exit_code == 0
    assert "warning: the pattern '^(?!x)' of 'find' is not checked" in done.stdout
    assert "^[A-Z]{2}$" not in done.stdout


def test_files_that_a_template_includes_are_read(run, shop):
    own = shop / "templates"
    own.mkdir(exist_ok=True)
    (own / "orchestration.prompty").write_text(
        "system:\n{% include 'rules.md' %}\n\nuser:\n{{question}}\n\n{{agent_scratchpad}}\n"
    )
    (own / "rules.md").write_text("{{instruction}}{% include 'more.md' %}")
    (own / "more.md").write_text("Be brief.")
    (own / "other.md").write_text("Nobody reads it.")
    found = json.loads(run("lint", shop, "--json").stdout)["diagnostics"]
    assert [it["message"] for it in found if it["code"] == "unused-template"] == [
        "nothing reads 'other.md'"
    ]
