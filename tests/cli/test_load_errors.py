"""Files of handlers that cannot be loaded: what their author reads, and nobody else."""

import json
import subprocess
import sys

import pytest
from cli_support import ANSWER, ORDER

from orchestrator import Agent, DependencyFailed
from orchestrator.support.load_errors import report_load_errors
from orchestrator.testing import ScriptedModel

SECRET = "canary-of-the-handler-77"
HANDLER = "action_groups/orders/handler.py"


@pytest.fixture(params=["", "PROCESS"], ids=["in the process", "in one of its own"])
def broken(request, shop):
    """Writes the handler of the shop's agent, and the module beside it that it imports."""
    file = shop / "agent.yaml"
    text = file.read_text()
    executor = "    actionGroupExecutor:"
    assert text.count(executor) == 1
    isolation = f"    isolation: {request.param}\n" if request.param else ""
    variables = f"    environment: {{SHOP_API_KEY: {SECRET}}}\n"
    file.write_text(text.replace(executor, f"{isolation}{variables}{executor}"))

    def write(handler, module=""):
        (shop / HANDLER).write_text(f"{handler}\n\n\ndef lambda_handler(event, context): ...\n")
        (shop / HANDLER).with_name("beside.py").write_text(module)
        return shop

    return write


def test_its_message_file_and_line_are_shown(run, broken, script):
    folder = broken("import os\nimport nonesuch_library")
    done = run("invoke", folder, "Hi", script(ORDER))
    assert done.exit_code == 1
    finding, source, error = done.stderr.splitlines()
    assert finding == (
        f"shop/{HANDLER}:2: error: running the file failed with ModuleNotFoundError: "
        "No module named 'nonesuch_library' [load]"
    )
    assert source == "  2 | import nonesuch_library"
    assert error.startswith("error: the action 'GET::orders::")
    # The way to the message is not told where the message is.
    assert "--debug" not in done.stderr


def test_the_file_may_be_one_beside_it(run, broken, script):
    folder = broken("import beside", "\n\nraise ValueError('no such table')\n")
    done = run("chat", folder, script(ORDER, ANSWER), input="Hi\n")
    assert "beside.py:3: error: running the file failed with ValueError: no such" in done.stderr


def test_credentials_are_taken_out(run, broken, script):
    folder = broken("import os\nraise ValueError('bad key: ' + os.environ['SHOP_API_KEY'])")
    done = run("invoke", folder, "Hi", script(ORDER))
    assert "ValueError: bad key: [redacted]" in done.stderr
    assert SECRET not in done.stderr + done.stdout


def test_documents_traces_and_callers_have_the_type_and_the_place_only(run, broken, script):
    folder = broken("raise ValueError('no such table')")
    done = run("invoke", folder, "Hi", script(ORDER), "--json")
    assert "no such table" not in done.stdout and "no such table" in done.stderr
    assert "raised ValueError at " in json.loads(done.stdout)["error"]["message"]
    seen = []
    with report_load_errors(seen.append):
        agent = Agent.load(folder, model=ScriptedModel([ORDER], "amazon.nova-pro-v1:0"))
        with pytest.raises(DependencyFailed) as caught:
            agent.invoke("Hi")
    assert "no such table" in seen[0].message
    assert "no such table" not in str(caught.value) + repr(caught.value.reply.trace)
    assert "no such table" not in repr(caught.value.__cause__)
    agent.close()


def test_nobody_is_told_outside_of_the_command_line(broken, capfd, caplog):
    folder = broken("raise ValueError('no such table')")
    agent = Agent.load(folder, model=ScriptedModel([ORDER], "amazon.nova-pro-v1:0"))
    with pytest.raises(DependencyFailed):
        agent.invoke("Hi")
    agent.close()
    assert "no such table" not in "".join((*capfd.readouterr(), caplog.text))


def test_what_a_call_raises_is_not_of_the_file(run, broken, script):
    folder = broken("")
    (folder / HANDLER).write_text("def lambda_handler(event, context):\n    raise KeyError('x')\n")
    done = run("invoke", folder, "Hi", script(ORDER))
    assert "raised KeyError at " in done.stderr and "running the file" not in done.stderr


@pytest.mark.parametrize(
    ("content", "where"),
    [("import beside\n", "beside.py:2"), ("import sys\nsys.exit('no')\n", "tools.py:2")],
)
def test_a_file_of_functions_is_shown_by_lint_and_by_run(run, place, content, where):
    (place / "beside.py").write_text("\nraise ValueError('no such table')\n")
    (place / "tools.py").write_text(f"{content}def save(): ...\n")
    (place / "agent.yaml").write_text(
        f"agentName: a\ninstruction: {'You help. ' * 8}\nfoundationModel: local\n"
        "actionGroups:\n  - actionGroupName: g\n    actionGroupExecutor: {python: tools.py}\n"
    )
    done = run("lint", ".")
    assert done.exit_code == 1
    assert f"{where}: error: running the file failed with " in done.stdout
    (place / "flow.pl").write_text("[Say hello.]->answer\n")
    done = run("run", "flow.pl", "--tool", "save=tools.py:save")
    assert done.exit_code == 2
    assert f"{where}: error: running the file failed with " in done.stderr


def test_the_log_of_a_service_has_no_text_of_files(shop):
    # `serve` writes for its terminal only where it has one.
    program = (
        "from orchestrator.cli.terminal import Terminal\n"
        "from orchestrator.support.load_errors import reports_load_errors\n"
        "from orchestrator.server import serving\n"
        "serving.serve = lambda *_: print('reports', reports_load_errors())\n"
        "from orchestrator.cli import app\n"
        f"app(['serve', '--agents', {str(shop)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert "reports False" in done.stdout, done.stderr
