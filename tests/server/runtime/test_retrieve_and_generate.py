"""RetrieveAndGenerate over HTTP: an answer made of what a search finds."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from runtime_servers import CLAUDE

from orchestrator.errors import DependencyFailed
from orchestrator.guardrails import BedrockGuardrail, Verdict
from orchestrator.models import Model, ModelReply, ModelRequest

BASE = "HANDBOOK01"


class Answering(Model):
    """Answers in two parts, the first of which cites the first source in the prompt."""

    model_id = CLAUDE

    def __init__(self, *asides: str) -> None:
        self.requests: list[ModelRequest] = []
        self.asides = list(asides)

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if request.stage == "ORCHESTRATION":
            return ModelReply([{"text": self.asides.pop(0)}])
        text = self.prompt(-1)
        source = re.search(r"<source>\s*(\w+)", text)
        cited = f"<source>{source[1]}</source>" if source else ""
        parts = (
            f"<answer_part><text>Thirty days.</text><sources>{cited}</sources></answer_part>"
            "<answer_part><text>Ask your boss.</text><sources></sources></answer_part>"
        )
        return ModelReply([{"text": f"<answer>{parts}</answer>"}])

    def prompt(self, index: int) -> str:
        """The whole text of a request."""
        request = self.requests[index]
        told = [block["text"] for message in request.messages for block in message["content"]]
        return "\n".join([request.system, *told])


def asking(text: str = "How many?", base: str = BASE, **members: Any) -> dict[str, Any]:
    own = {"knowledgeBaseId": base, "modelArn": CLAUDE, **members}
    configuration = {"type": "KNOWLEDGE_BASE", "knowledgeBaseConfiguration": own}
    return {"input": {"text": text}, "retrieveAndGenerateConfiguration": configuration}


def code_of(caught: Any) -> str:
    return str(caught.value.response["Error"]["Code"])


def test_an_answer_with_citations(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    search = {"vectorSearchConfiguration": {"numberOfResults": 1}}
    answer = server.client.retrieve_and_generate(
        **asking("How many vacation days?", retrievalConfiguration=search)
    )
    assert answer["output"]["text"] == "Thirty days. Ask your boss."
    (citation,) = answer["citations"]
    part = citation["generatedResponsePart"]["textResponsePart"]
    assert part == {"text": "Thirty days.", "span": {"start": 0, "end": 11}}
    (reference,) = citation["retrievedReferences"]
    assert reference["content"]["text"] in server.model.prompt(0)
    assert reference.keys() == {"content", "location", "metadata"}
    assert "guardrailAction" not in answer
    assert re.fullmatch(r"[0-9a-f-]{36}", answer["sessionId"])


class Unsure(Answering):
    """Answers without a source."""

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return ModelReply([{"text": "<answer>I do not know.</answer>"}])


def test_an_answer_without_a_source_is_one_citation_of_none(start: Any, handbook: Any) -> None:
    # Recorded: the service never leaves the list empty.
    whole = {
        "generatedResponsePart": {
            "textResponsePart": {"text": "I do not know.", "span": {"start": 0, "end": 13}}
        },
        "retrievedReferences": [],
    }
    server = start(Unsure(), handbook)
    assert server.client.retrieve_and_generate(**asking())["citations"] == [whole]
    _, events = streamed(server, **asking())
    assert events[0] == {"output": {"text": "I do not know."}}
    (cited,) = [it["citation"] for it in events if "citation" in it]
    assert cited == {**whole, "citation": whole}


def test_a_conversation_goes_on_under_the_services_own_id(start: Any, handbook: Any) -> None:
    model = Answering("<search_query>Are vacation days paid when left?</search_query>")
    server = start(model, handbook)
    first = server.client.retrieve_and_generate(**asking("How many vacation days are there?"))
    id = first["sessionId"]
    second = server.client.retrieve_and_generate(**asking("And if I leave?"), sessionId=id)
    assert second["sessionId"] == id
    rewriting = model.prompt(1)
    assert "How many vacation days are there?" in rewriting
    assert "Thirty days. Ask your boss." in rewriting
    assert "And if I leave?" in rewriting
    assert "Are vacation days paid when left?" in model.prompt(2)


def test_a_session_id_of_ones_own_is_refused(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    with pytest.raises(ClientError) as caught:
        server.client.retrieve_and_generate(**asking(), sessionId="my-own-session")
    assert code_of(caught) == "ValidationException"
    assert "my-own-session" in str(caught.value)
    assert not server.model.requests


def test_a_prompt_and_settings_of_ones_own(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    template = (
        "Be a pirate. Passages: $search_results$ Question: $query$ $output_format_instructions$ "
        "It is $current_time$. Keep $unknown$."
    )
    generation = {
        "promptTemplate": {"textPromptTemplate": template},
        "inferenceConfig": {"textInferenceConfig": {"maxTokens": 77, "temperature": 0.5}},
        "additionalModelRequestFields": {"seed": 7},
    }
    question = "How many vacation days $search_results$?"
    server.client.retrieve_and_generate(**asking(question, generationConfiguration=generation))
    prompt = server.model.prompt(0)
    assert "Be a pirate." in prompt
    assert "thirty vacation days" in prompt
    assert "Question: How many vacation days $search_results$?" in prompt
    assert "<answer_part>" in prompt
    assert "$output_format_instructions$" not in prompt
    assert "$current_time$" not in prompt
    assert "$unknown$" in prompt
    request = server.model.requests[0]
    assert request.inference["maximumLength"] == 77
    assert request.inference["temperature"] == 0.5
    assert request.additional == {"seed": 7}


def test_a_query_in_parts(start: Any, handbook: Any) -> None:
    model = Answering("- Are dogs allowed?\n- What is paid?")
    server = start(model, handbook)
    decomposed = {"queryTransformationConfiguration": {"type": "QUERY_DECOMPOSITION"}}
    one = {"vectorSearchConfiguration": {"numberOfResults": 1}}
    server.client.retrieve_and_generate(
        **asking(
            "Dogs, and pay?", orchestrationConfiguration=decomposed, retrievalConfiguration=one
        )
    )
    assert "Dogs may come" in model.prompt(1)
    assert "are paid" in model.prompt(1)


def test_an_orchestration_prompt_of_ones_own(start: Any, handbook: Any) -> None:
    model = Answering("vacation days")
    server = start(model, handbook)
    prompt = {"textPromptTemplate": "Rewrite: $query$ ($conversation_history$)"}
    server.client.retrieve_and_generate(
        **asking("Wie viele <b>?", orchestrationConfiguration={"promptTemplate": prompt})
    )
    assert model.prompt(0).strip() == "Rewrite: Wie viele &lt;b&gt;? ()"
    assert "thirty vacation days" in model.prompt(1)


def test_documents_that_come_with_the_question(start: Any) -> None:
    server = start(Answering())
    document = {
        "sourceType": "BYTE_CONTENT",
        "byteContent": {
            "contentType": "text/plain",
            "identifier": "note.txt",
            "data": b"The office is closed on Mondays.",
        },
    }
    own = {"modelArn": CLAUDE, "sources": [document]}
    answer = server.client.retrieve_and_generate(
        input={"text": "When is it closed?"},
        retrieveAndGenerateConfiguration={
            "type": "EXTERNAL_SOURCES",
            "externalSourcesConfiguration": own,
        },
    )
    assert "closed on Mondays" in server.model.prompt(0)
    (citation,) = answer["citations"]
    (reference,) = citation["retrievedReferences"]
    assert reference["location"]["customDocumentLocation"]["id"] == "note.txt"


def test_a_document_of_no_known_type(start: Any) -> None:
    server = start(Answering())
    content = {"contentType": "image/png", "identifier": "a.png", "data": b"x"}
    own = {
        "modelArn": CLAUDE,
        "sources": [{"sourceType": "BYTE_CONTENT", "byteContent": content}],
    }
    with pytest.raises(ClientError) as caught:
        server.client.retrieve_and_generate(
            input={"text": "What?"},
            retrieveAndGenerateConfiguration={
                "type": "EXTERNAL_SOURCES",
                "externalSourcesConfiguration": own,
            },
        )
    assert code_of(caught) == "ValidationException"


@pytest.mark.usefixtures("missing_in_aws")
def test_no_such_knowledge_base(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    with pytest.raises(ClientError) as caught:
        server.client.retrieve_and_generate(**asking(base="NOBODY0000"))
    assert code_of(caught) == "ResourceNotFoundException"


def streamed(server: Any, **params: Any) -> tuple[str, list[dict[str, Any]]]:
    response = server.client.retrieve_and_generate_stream(**params)
    with closing(response["stream"]) as stream:
        return response["sessionId"], list(stream)


def test_an_answer_that_streams(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    id, events = streamed(server, **asking("How many vacation days?"))
    text = "".join(it["output"]["text"] for it in events if "output" in it)
    assert text == "Thirty days. Ask your boss."
    (cited,) = [it["citation"] for it in events if "citation" in it]
    assert cited["generatedResponsePart"]["textResponsePart"]["span"] == {"start": 0, "end": 11}
    assert cited["citation"]["retrievedReferences"] == cited["retrievedReferences"]
    assert not [it for it in events if "guardrail" in it]
    assert re.fullmatch(r"[0-9a-f-]{36}", id)


class Listing(Answering):
    """Answers in two lists, which cite the same source, and a closing sentence."""

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        source = re.search(r"<source>\s*(\w+)", self.prompt(-1))
        assert source is not None
        texts = (
            ("- thirty days\n- unpaid leave", source[1]),
            ("On Fridays:\n\n1. dogs\n2. cats", source[1]),
            ("Ask your boss.", ""),
        )
        parts = "".join(
            f"<answer_part>\n<text>\n{text}\n</text>\n<sources>\n<source>{id}</source>\n</sources>\n"
            "</answer_part>\n"
            for text, id in texts
        )
        return ModelReply([{"text": f"<answer>\n{parts}</answer>"}])


def test_each_part_of_a_stream_comes_before_its_citation(start: Any, handbook: Any) -> None:
    server = start(Listing(), handbook)
    _, events = streamed(server, **asking("How many vacation days?"))
    shown = [
        it["output"]["text"]
        if "output" in it
        else it["citation"]["generatedResponsePart"]["textResponsePart"]
        for it in events
    ]
    first, second = "- thirty days\n- unpaid leave", "On Fridays:\n\n1. dogs\n2. cats"
    assert shown == [
        first,
        {"text": first, "span": {"start": 0, "end": 27}},
        f" {second}",
        {"text": second, "span": {"start": 29, "end": 56}},
        " Ask your boss.",
    ]


class Failing(Model):
    model_id = CLAUDE

    def complete(self, request: ModelRequest) -> ModelReply:
        raise DependencyFailed("the model is down", resource="m")


def test_a_model_that_fails(start: Any, handbook: Any) -> None:
    server = start(Failing(), handbook)
    with pytest.raises(ClientError) as caught:
        server.client.retrieve_and_generate(**asking())
    assert code_of(caught) == "DependencyFailedException"
    with pytest.raises(EventStreamError) as broken:
        streamed(server, **asking())
    assert broken.value.response["Error"]["Code"] == "dependencyFailedException"


@pytest.fixture
def guarding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guardrails of AWS block bombs."""

    def check(self: BedrockGuardrail, text: str, source: str) -> Verdict:
        return Verdict("INTERVENED", "No.", True) if "bomb" in text else Verdict(text=text)

    monkeypatch.setattr(BedrockGuardrail, "check", check)


@pytest.mark.usefixtures("guarding")
def test_a_guardrail(start: Any, handbook: Any) -> None:
    server = start(Answering(), handbook)
    guarded = {"guardrailConfiguration": {"guardrailId": "abc", "guardrailVersion": "1"}}

    def ask(text: str) -> dict[str, Any]:
        return asking(text, generationConfiguration=guarded)

    fine = server.client.retrieve_and_generate(**ask("How many?"))
    assert fine["guardrailAction"] == "NONE"
    blocked = server.client.retrieve_and_generate(**ask("A bomb?"))
    assert (blocked["output"]["text"], blocked["guardrailAction"]) == ("No.", "INTERVENED")
    _, events = streamed(server, **ask("A bomb?"))
    assert [next(iter(it)) for it in events] == ["output", "citation", "guardrail"]
    assert events[0] == {"output": {"text": "No."}}
    assert events[2] == {"guardrail": {"action": "INTERVENED"}}
    # Nor does the model read what is blocked, where it would be asked to rewrite it.
    asked = len(server.model.requests)
    server.client.retrieve_and_generate(**ask("A bomb?"), sessionId=fine["sessionId"])
    assert len(server.model.requests) == asked
