"""`orchestrator parse`: what a reply is understood as."""

import json

CALL = """<thinking>Look.</thinking><function_calls><invoke>
<tool_name>GET::orders::getOrder</tool_name><parameters><orderId>1042</orderId></parameters>
</invoke></function_calls>"""


def test_pieces_and_response_are_shown(run):
    done = run("parse", input=CALL)
    assert done.exit_code == 0
    assert "10–15  thinking Look." in done.stdout
    assert '"apiName": "getOrder"' in done.stdout


def test_a_file_and_a_stage(run, place):
    (place / "reply.txt").write_text("<final_response>Better.</final_response>")
    done = run("parse", "reply.txt", "--stage", "post-processing", "--json")
    response = json.loads(done.stdout)["response"]
    assert response["postProcessingParsedResponse"]["responseText"] == "Better."


def test_content_blocks_are_read_as_such(run):
    use = {"toolUse": {"toolUseId": "t-1", "name": "hr__days", "input": {}}}
    for value in ([use], {"role": "assistant", "content": [use]}):
        told = json.loads(run("parse", "--json", input=json.dumps(value)).stdout)
        assert told["pieces"] == [{"kind": "toolUse", "text": "hr__days"}]


def test_json_that_is_no_reply_is_text(run):
    for text in ('{"a": 1}', "[1]", "{"):
        told = json.loads(run("parse", "--json", input=text).stdout)
        assert told["pieces"][0]["text"] == text


def test_what_cannot_be_understood_is_exit_code_1(run):
    done = run("parse", input="<thinking>Hm.")
    assert done.exit_code == 1
    assert "not understood NO_ANSWER" in done.stdout
    assert "what the model is told" in done.stdout


def test_a_wrong_parser_or_file(run, place):
    assert "there is no parser 'yaml'" in run("parse", "--parser", "yaml", input="x").stderr
    done = run("parse", "nowhere.txt")
    assert done.exit_code == 2
    assert done.stderr == "error: there is no file 'nowhere.txt'; '-' reads stdin\n"
    (place / "folder").mkdir()
    assert run("parse", "folder").stderr == "error: 'folder' cannot be read: Is a directory\n"


def test_a_stage_that_is_none_is_told_with_those_that_are(run):
    done = run("parse", "--stage", "postprocessing", input="hi")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "error: there is no stage 'postprocessing': did you mean POST_PROCESSING? There are PRE_"
    )


def test_a_grammar_is_told(run):
    done = run("parse", "--parser", "function_call", input='<function_call>hr::days(who="me")')
    assert "understood as (calls in the grammar of function_call)" in done.stdout


def test_all_stages_are_known(run):
    done = run("parse", "--stage", "routing-classifier", "--json", input="<a>claims</a>")
    told = json.loads(done.stdout)
    found = told["response"]["routingClassifierParsedResponse"]["responseDetails"]
    assert found["agentCollaboratorInvocation"] == {"agentCollaboratorName": "claims"}
    done = run("parse", "--stage", "memory-summarization", input="<topic name='a'>x</topic>")
    assert "16–17  topic    x" in done.stdout
    done = run("parse", "--stage", "routing-classifier", input="hm")
    assert (done.exit_code, "not understood NO_ROUTE" in done.stdout) == (1, True)


PARSER = """
import json

def lambda_handler(event, context):
    raw = event["invokeModelRawResponse"]
    text = json.loads(raw)["content"][0]["text"] if raw.startswith("{") else raw
    final = {"responseText": text.upper()}
    details = {"invocationType": "FINISH", "agentFinalResponse": final}
    return {"messageVersion": "1.0", "promptType": event["promptType"],
            "orchestrationParsedResponse": {"responseDetails": details}}

def broken(event, context):
    return {}
"""


def test_a_parser_of_ones_own(run, place):
    (place / "parser.py").write_text(PARSER)
    message = {"output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}}}
    for reply in ("Hi.", json.dumps([{"text": "Hi."}]), json.dumps(message)):
        told = json.loads(
            run("parse", "--parser-lambda", "parser.py", "--json", input=reply).stdout
        )
        details = told["response"]["orchestrationParsedResponse"]["responseDetails"]
        assert details["agentFinalResponse"] == {"responseText": "HI."}
        assert told["parser"] == "parser.py"
        assert told["pieces"] == [{"kind": "outside", "start": 0, "end": 3, "text": "Hi."}]


def test_a_parser_of_ones_own_that_is_wrong(run, place):
    (place / "parser.py").write_text(PARSER)
    done = run("parse", "--parser-lambda", "parser.py:broken", input="Hi.")
    assert done.exit_code == 1
    assert "'parser.py:broken' of stage ORCHESTRATION" in done.stderr
    assert "'orchestrationParsedResponse' is missing" in done.stderr
    done = run("parse", "--parser-lambda", "nowhere.py", input="Hi.")
    assert "'nowhere.py' is not a Python file that exists" in done.stderr
