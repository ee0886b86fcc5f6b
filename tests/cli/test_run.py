"""`orchestrator run`, and `lint` and `render` of scripts."""

import json
from pathlib import Path

import pytest

PROGRAM = """Name a bird of $place. -> bird
(bp)
@shout($bird) -> loud
"""
TOOLS = """
def shout(text):
    return text.upper()


def many(names):
    return len(names)
"""


@pytest.fixture
def flow(place):
    (place / "flow.pl").write_text(PROGRAM)
    (place / "tools.py").write_text(TOOLS)
    return "flow.pl"


def test_the_result_is_on_stdout_and_what_happens_on_stderr(run, script, place):
    Path("poem.pl").write_text("Name a bird of $place. -> bird\n@shout($bird) -> loud\n")
    Path("tools.py").write_text(TOOLS)
    done = run("run", "poem.pl", "place=Bern", "--tool=shout=tools.py:shout", script("heron"))
    assert (done.exit_code, done.stdout) == (0, "HERON\n")
    assert done.stderr == (
        "   1  Name a bird of $place. -> bird\n"
        "      bird = heron\n"
        "   2  @shout($bird) -> loud\n"
        "      shout(heron)\n"
        "      loud = HERON\n"
    )


def test_a_ppe_script_takes_one_text(run, script):
    Path("poem.ai.yaml").write_text("user: 'A poem about {{content}}'\n")
    done = run("run", "poem.ai.yaml", "the moon", script("Pale."))
    assert (done.exit_code, done.stdout) == (0, "Pale.\n")


def test_arguments_are_json_or_text_or_a_file(run, script):
    Path("flow.pl").write_text(
        'IF $a == 1 and $b == "x y" and ${c[1]} == "z" and $d == "t":\n    @exit(msg="yes")\nEND\n'
    )
    Path("c.json").write_text('["y", "z"]')
    Path("d.txt").write_text("t")
    done = run("run", "flow.pl", "a=1", "b=x y", "c=@c.json", "d=@d.txt", script())
    assert done.stdout == "yes\n"


def test_data_is_printed_as_json(run, script):
    Path("flow.pl").write_text('@code(```json\n{"a": [1]}\n```) -> x\n')
    assert json.loads(run("run", "flow.pl", script()).stdout) == {"a": [1]}


def test_a_run_that_waits_is_kept_and_gone_on_with(run, script, flow):
    done = run("run", flow, "place=Bern", script("heron"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "waits at line 2: (bp)" in done.stderr
    assert "--resume flow.state.json" in done.stderr
    again = run("run", flow, "--resume=flow.state.json", "--tool=shout=tools.py:shout", script())
    assert (again.exit_code, again.stdout) == (0, "HERON\n")


def test_the_state_goes_where_it_is_wanted(run, script, flow):
    run("run", flow, "place=Bern", "--state=kept.json", script("heron"))
    assert Path("kept.json").exists() and not Path("flow.state.json").exists()


def test_steps_wait_before_each_statement(run, script, flow):
    done = run("run", flow, "place=Bern", "--step", script("heron"))
    assert "waits at line 1" in done.stderr
    done = run("run", flow, "--resume=flow.state.json", "--step", script("heron"))
    assert "waits at line 2" in done.stderr


def test_a_state_is_its_users_alone_and_overwrites_no_other_runs(run, script, flow):
    for expected in ("flow.state.json", "flow.2.state.json"):
        done = run("run", flow, "place=Bern", script("heron"))
        assert f"--resume {expected}" in done.stderr
        assert Path(expected).stat().st_mode & 0o777 == 0o600
    first, second = (json.loads(Path(f"flow{n}.state.json").read_text()) for n in ("", ".2"))
    assert first["session"] != second["session"]
    run("run", flow, "--resume=flow.state.json", "--step", script())
    assert not Path("flow.3.state.json").exists()
    Path("kept.json").write_text("[]")
    Path("kept.json").chmod(0o644)
    run("run", flow, "place=Bern", "--state=kept.json", script("heron"))
    assert Path("kept.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kept", ["nix/x.json", "."])
def test_a_state_that_cannot_be_written_is_refused_before_the_model_is_asked(
    run, script, flow, kept
):
    done = run("run", flow, "place=Bern", f"--state={kept}", script("heron"))
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr and "heron" not in done.stderr


def test_text_is_for_a_run_that_waits_for_the_user(run, script, flow):
    done = run("run", flow, "place=Bern", "--text=hi", script("heron"))
    assert (done.exit_code, "give its --resume" in done.stderr) == (2, True)
    run("run", flow, "place=Bern", script("heron"))
    done = run("run", flow, "--resume=flow.state.json", "--text=hi", script("heron"))
    assert (done.exit_code, "does not wait for the user" in done.stderr) == (2, True)


def test_json_tells_result_and_state(run, script, flow):
    waits = json.loads(run("run", flow, "place=Bern", "--json", script("heron")).stdout)
    assert (waits["waits_for"], waits["line"], waits["variables"]["bird"]) == (
        "breakpoint",
        2,
        "heron",
    )
    Path("state.json").write_text(json.dumps(waits["state"]))
    done = run(
        "run", flow, "--resume=state.json", "--tool=shout=tools.py:shout", "--json", script()
    )
    told = json.loads(done.stdout)
    assert (told["output"], done.stderr) == ("HERON", "")
    assert "state" not in told


def test_a_question_to_the_user_is_answered_with_text(run, script):
    Path("talk.pl").write_text('@agent(type="prompt-based", task="Talk.") -> talk\n')
    done = run("run", "talk.pl", script("Hello?"))
    assert "waits for the user: Hello?" in done.stderr
    done = run("run", "talk.pl", "--resume=talk.state.json", "--text=exit", script())
    assert done.stdout == "Hello?\n"


def test_a_run_that_fails_exits_with_one(run, script, flow):
    Path("flow.pl").write_text("\n@shout(1) -> a\n")
    done = run("run", flow, "--tool=shout=tools.py:shout", script())
    assert done.exit_code == 1
    assert "flow.pl:2:1: error: the function 'shout' raised AttributeError" in done.stderr
    told = json.loads(run("run", flow, "--tool=shout=tools.py:shout", "--json", script()).stdout)
    assert (told["error"]["line"], told["error"]["statement"]) == (2, "@shout(1) -> a")
    assert "执行失败" in told["error"]["message_zh"]


def test_chinese_users_read_chinese(run, script, monkeypatch):
    Path("flow.pl").write_text("@nothing(1) -> a\n")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "未找到函数: nothing" in run("run", "flow.pl", script()).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bad.pl"], "bad.pl:1:1: error: the IF has no colon"),
        (["none.pl"], "error: there is no file 'none.pl'"),
        (["tools.py"], "'tools.py' is neither a script nor a template by its name: scripts end in"),
        (["desk"], "'desk' is an agent; ask it with `orchestrator invoke`"),
        (["flow.pl", "text"], "'text' is not NAME=VALUE"),
        (["flow.pl", "a=1", "--resume=s.json"], "leave them out"),
        (["flow.pl", "--tool=shout"], "is not NAME=FILE:FUNCTION"),
        (["flow.pl", "--tool=f=tools.py:none"], "no function 'none'"),
        (["flow.pl", "--tool=f=none.py:f"], "not a Python file that exists"),
        (["flow.pl", "--resume=tools.py"], "is not JSON"),
        (["flow.pl", "--resume=deep.json"], "is not JSON"),
        (["flow.pl", "a=@none"], "there is no file 'none'"),
    ],
)
def test_what_is_wrong_with_the_command_exits_with_two(run, script, flow, words, told):
    Path("bad.pl").write_text("IF $a\n")
    Path("deep.json").write_text("[" * 100_000)
    Path("desk").mkdir()
    Path("desk/agent.yaml").write_text("agentName: desk\n")
    done = run("run", *words, script())
    assert done.exit_code == 2
    assert told in done.stderr


def test_lint_tells_what_is_doubtful(run):
    Path("flow.pl").write_text(
        'Say $a -> b\n@exit(msg="$b")\nSay -> c\nFOR $b in [1]:\n    Say $z -> z\nEND\n'
    )
    done = run("lint", "flow.pl")
    assert done.exit_code == 0
    codes = ["argument", "unreachable", "overwritten", "used-before"]
    assert [
        line.split("[")[-1][:-1] for line in done.stdout.splitlines() if "flow.pl:" in line
    ] == codes
    assert run("lint", "flow.pl", "--strict").exit_code == 1


def test_lint_tells_what_cannot_be_read(run):
    Path("a.ai.yaml").write_text("user: 'x {{'\n")
    Path("b.pl").write_text("Say\n")
    done = run("lint", ".", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["diagnostics"]
    assert [(Path(it["file"]).name, it["code"]) for it in found] == [
        ("a.ai.yaml", "script"),
        ("b.pl", "script"),
    ]


def test_lint_of_an_agent_checks_its_script(run, buyer):
    with (buyer / "agent.yaml").open("a") as file:
        file.write("orchestration: flow.pl\n")
    (buyer / "flow.pl").write_text("Say $question to $who -> b\n@exit()\nSay -> c\n")
    done = run("lint", buyer)
    assert "buyer/flow.pl:3:1: warning: this is never reached" in done.stdout
    assert "$who is an argument" in done.stdout and "$question is" not in done.stdout
    (buyer / "flow.pl").write_text("Say\n")
    done = run("lint", buyer)
    assert done.exit_code == 1
    assert "buyer/flow.pl:1:1: error: the text has no arrow" in done.stdout


def test_lint_of_an_agent_knows_what_its_script_may_call(run, place):
    Path("leave").mkdir()
    Path("leave/agent.yaml").write_text(
        "agentName: leave\ninstruction: You help employees with their vacations.\n"
        "foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0\norchestration: flow.pl\n"
        "actionGroups:\n  - actionGroupName: vacations\n"
        "    actionGroupExecutor: {customControl: RETURN_CONTROL}\n"
        "    functionSchema:\n      functions:\n        - name: get_days\n"
        "          description: Days left.\n"
    )
    Path("leave/flow.pl").write_text("@get_days() -> a\n@vacations__get_days() -> b\n")
    assert "get_days" not in run("lint", "leave").stdout
    Path("leave/flow.pl").write_text("@get_dys(employee=1) -> a\n")
    told = run("lint", "leave").stdout
    assert "flow.pl:1:1: warning: the agent has no action @get_dys(...); did you mean" in told


def test_render_shows_the_first_prompt_and_asks_no_model(run, flow):
    done = run("render", flow, "place=Bern", "--model=anthropic.claude-3-haiku-20240307-v1:0")
    assert done.exit_code == 0
    assert "Name a bird of Bern." in done.stdout and "line 1" in done.stdout
    told = json.loads(run("render", flow, "place=Bern", "--json").stdout)
    assert told["messages"][0]["content"] == [{"text": "Name a bird of Bern."}]


def test_render_calls_the_functions_before_the_prompt(run, flow):
    Path("flow.pl").write_text("@shout($a) -> b\nSay $b -> c\n")
    done = run("render", flow, "a=x", "--tool=shout=tools.py:shout")
    assert "Say X" in done.stdout
    assert run("render", flow, "a=x").exit_code == 2


def test_render_of_a_script_that_asks_nothing(run):
    Path("flow.pl").write_text("@exit()\n")
    done = run("render", "flow.pl")
    assert (done.exit_code, "asks no model" in done.stderr) == (2, True)


def test_items_of_a_loop_run_at_the_same_time_and_say_which_they_are(run, script):
    Path("map.pl").write_text("FOR $x in [1, 2]:\n    @double($x) >> twice\nEND\n")
    Path("tools.py").write_text("def double(x):\n    return 2 * x\n")
    words = ("run", "map.pl", "--tool=double=tools.py:double", "--parallel=2", script())
    done = run(*words)
    assert (done.exit_code, done.stdout) == (0, "4\n")
    lines = done.stderr.split("\n")
    assert lines[0] == "   1  FOR $x in [1, 2]:"
    for number in (1, 2):
        own = [it for it in lines if f"[{number}] " in it]
        assert own == [
            f"      [{number}] x = {number}",
            f"   2  [{number}] @double($x) >> twice",
            f"      [{number}] double({number})",
            f"      [{number}] twice = [{2 * number}]",
        ]
    assert lines[-3:] == ["      x = 2", "      twice = [2, 4]", ""]
    assert run(*words[:3], script(), "--json").exit_code == 0


@pytest.mark.parametrize("words", [["--parallel=0"], ["--parallel=x"]])
def test_so_many_items_at_the_same_time_is_a_number_from_one(run, script, flow, words):
    assert run("run", flow, *words, script()).exit_code == 2


def test_a_ppe_script_has_no_loops_that_run_at_the_same_time(run, script):
    Path("poem.ai.yaml").write_text("user: hi\n")
    done = run("run", "poem.ai.yaml", "--parallel=2", script("x"))
    assert done.exit_code == 2
    assert "workflow language" in done.stderr


def test_a_ppe_script_waits_before_each_statement(run, script):
    Path("poem.ai.yaml").write_text("user: hi\n---\nuser: there\n")
    done = run("run", "poem.ai.yaml", "--step", script("x", "y"))
    assert done.exit_code == 0
    assert "waits at line 1: user: hi" in done.stderr
    done = run("run", "poem.ai.yaml", "--resume=poem.state.json", script("x", "y"))
    assert (done.exit_code, done.stdout.strip()) == (0, "x")
