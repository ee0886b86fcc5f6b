"""A parser Lambda as people publish them: regular expressions, one handler for every stage."""

import logging
import re
import xml.etree.ElementTree as ET

logger = logging.getLogger()

RATIONALE = [r"(.*?)(<function_calls>)", r"(.*?)(<answer>)"]
THINKING = r"<thinking>(.*?)(</thinking>)"
KB_PREFIX = "x_amz_knowledgebase_"


def lambda_handler(event, context):
    print("event:", event)
    prompt_type = event["promptType"]
    response = event["invokeModelRawResponse"]
    logger.info("request %s", context.aws_request_id)
    parsed = {"promptType": prompt_type}
    if prompt_type == "ORCHESTRATION":
        parsed["orchestrationParsedResponse"] = parse_orchestration(response)
    elif prompt_type == "PRE_PROCESSING":
        parsed["preProcessingParsedResponse"] = parse_pre(response)
    elif prompt_type == "POST_PROCESSING":
        text = re.search(r"<final_response>(.*?)</final_response>", response, re.DOTALL)
        parsed["postProcessingParsedResponse"] = {
            "responseText": text.group(1).strip() if text else response
        }
    elif prompt_type == "KNOWLEDGE_BASE_RESPONSE_GENERATION":
        parsed["knowledgeBaseResponseGenerationParsedResponse"] = {
            "generatedResponse": parse_parts(response)
        }
    elif prompt_type == "ROUTING_CLASSIFIER":
        parsed["routingClassifierParsedResponse"] = parse_route(response)
    elif prompt_type == "MEMORY_SUMMARIZATION":
        topics = re.findall(r"<topic name='(.*?)'>(.*?)</topic>", response, re.DOTALL)
        parsed["memorySummarizationParsedResponse"] = {
            "topicwiseSummaries": [{"topic": name, "summary": text} for name, text in topics]
        }
    parsed["messageVersion"] = "1.0"
    return parsed


def parse_pre(response):
    category = re.search(r"<category>(.*?)</category>", response, re.DOTALL)
    thought = re.search(THINKING, response, re.DOTALL)
    letter = category.group(1).strip().upper() if category else "N"
    return {
        "rationale": thought.group(1).strip() if thought else None,
        "isValidInput": letter in ("D", "E"),
    }


def parse_orchestration(response):
    parsed = {"rationale": parse_rationale(response)}
    if response.rfind("<answer>") > response.rfind("<function_calls>"):
        answer = response[response.rfind("<answer>") + 8 :]
        final = {"responseText": answer.strip()}
        if "<answer_part>" in answer:
            final["citations"] = parse_parts(answer)
            final["responseText"] = " ".join(
                part["text"] for part in final["citations"]["generatedResponseParts"]
            )
        parsed["responseDetails"] = {
            "invocationType": "FINISH",
            "agentFinalResponse": final,
            "agentAskUser": None,
        }
        return parsed
    call = re.search(r"<invoke>(.*)", response, re.DOTALL)
    if call is None or "<tool_name>" not in call.group(1):
        parsed["parsingErrorDetails"] = {
            "repromptResponse": "Write <invoke> with a <tool_name>, please."
        }
        return parsed
    root = ET.fromstring("<invoke>" + call.group(1).split("</invoke>")[0] + "</invoke>")
    verb, group, api = root.find("tool_name").text.strip().split("::")
    values = {one.tag: {"value": one.text} for one in root.find("parameters")}
    if group.startswith(KB_PREFIX):
        parsed["responseDetails"] = {
            "invocationType": "KNOWLEDGE_BASE",
            "agentKnowledgeBase": {
                "knowledgeBaseId": group[len(KB_PREFIX) :],
                "searchQuery": values["searchQuery"],
            },
        }
        return parsed
    parsed["responseDetails"] = {
        "invocationType": "ACTION_GROUP",
        "actionGroupInvocation": {
            "verb": verb.lower(),
            "actionGroupName": group,
            "apiName": api,
            "actionGroupInput": values,
        },
    }
    return parsed


def parse_rationale(response):
    for pattern in RATIONALE:
        found = re.search(pattern, response, re.DOTALL)
        if found:
            inner = re.search(THINKING, found.group(1), re.DOTALL)
            return inner.group(1).strip() if inner else found.group(1).strip()
    return None


def parse_parts(text):
    parts = []
    for part in re.findall(r"<answer_part\s?>(.+?)</answer_part\s?>", text, re.DOTALL):
        said = re.search(r"<text\s?>(.+?)</text\s?>", part, re.DOTALL)
        sources = re.findall(r"<source\s?>(.+?)</source\s?>", part, re.DOTALL)
        references = [{"sourceId": source.strip()} for source in sources]
        parts.append({"text": said.group(1).strip(), "references": references})
    return {"generatedResponseParts": parts}


def parse_route(response):
    choice = re.search(r"<a>(.*?)</a>", response)
    if choice is None:
        return {"responseDetails": {"type": "UNDECIDED"}}
    return {
        "responseDetails": {
            "type": "AGENT",
            "agentCollaboratorInvocation": {
                "agentCollaboratorName": choice.group(1),
                "input": {"text": ""},
            },
        }
    }
