"""Row 17, for parsers of one's own: an error names what failed, and quotes nothing of it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from orchestrator.actions.parser_lambda import lambda_parser
from orchestrator.errors import DependencyFailed

CANARY = "canary-7f3a"


def raising(event: dict[str, Any]) -> Any:
    raise RuntimeError(f"cannot parse {event['invokeModelRawResponse']}")


def wrong_type(event: dict[str, Any]) -> Any:
    details = {"invocationType": event["invokeModelRawResponse"], CANARY: CANARY}
    return {"orchestrationParsedResponse": {"responseDetails": details}}


def no_object(event: dict[str, Any]) -> Any:
    return event["invokeModelRawResponse"]


def wrong_version(event: dict[str, Any]) -> Any:
    return {"messageVersion": CANARY, "promptType": CANARY}


@pytest.mark.parametrize("parser", [raising, wrong_type, no_object, wrong_version])
@pytest.mark.parametrize("tool_use", [True, False])
def test_the_reply_is_in_no_error_and_no_log(
    parser: Any, tool_use: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make = lambda_parser(parser, "ORCHESTRATION", {"name": "a"}, tool_use=tool_use)
    with pytest.raises(DependencyFailed) as caught:
        make().finish([{"text": f"token {CANARY}"}])
    told = [str(caught.value), caught.value.resource, json.dumps(caught.value.args), caplog.text]
    assert not [text for text in told if CANARY in text]
    assert parser.__name__ in str(caught.value)
