"""A template without the functions, and a model that reads them in its prompt: who is told so."""

import json

import pytest

LOCAL = "--model=scripted:replies.jsonl@local:1.5b"


@pytest.fixture
def blind(shop, place):
    """The agent of `init` with a template that was written for models with native tools."""
    (shop / "templates" / "orchestration.json").write_text(
        json.dumps(
            {
                "system": "$instruction$",
                "messages": [
                    {"role": "user", "content": [{"text": "$question$"}]},
                    {"role": "assistant", "content": [{"text": "$agent_scratchpad$"}]},
                ],
            }
        )
    )
    (place / "replies.jsonl").write_text('"<answer>Aye."\n')
    return shop


def test_lint_names_the_template(run, blind):
    done = run("lint", blind, LOCAL)
    assert done.exit_code == 0
    assert done.stdout.count("[appended-tools]") == 1
    assert done.stdout.startswith("shop/templates/orchestration.json: warning: the ORCHESTRATION")
    assert run("lint", blind, LOCAL, "--strict").exit_code == 1
    assert "appended-tools" not in run("lint", blind, "--model=amazon.nova-pro-v1:0").stdout


def test_render_shows_what_is_sent(run, blind):
    done = run("render", blind, "Hi", LOCAL)
    assert "    <tools>\n" in done.stdout or "  <tools>\n" in done.stdout
    assert "getOrder" in done.stdout and "\ntools\n" not in done.stdout
    assert done.stderr.count("[appended-tools]") == 1
    document = json.loads(run("render", blind, "Hi", LOCAL, "--json").stdout)
    (finding,) = document["diagnostics"]
    assert finding["code"] == "appended-tools" and finding["severity"] == "warning"
    assert document["tools"] == [] and "<tools>\n{" in document["system"]
    origins = [span["origin"] for span in document["system_spans"]]
    assert origins == ["instruction", "template", "tools", "template"]


def test_invoke_says_so_once(run, blind):
    done = run("invoke", blind, "Hi", LOCAL)
    assert done.stdout.strip() == "Aye."
    assert "note: the ORCHESTRATION template has no $tools$, and 'local:1.5b'" in done.stderr
    assert "note: a warning" not in done.stderr
    assert done.stderr.count("note: ") == 1
    native = run("invoke", blind, "Hi", LOCAL.replace("local:1.5b", "amazon.nova-pro-v1:0"))
    assert "note: " not in native.stderr
