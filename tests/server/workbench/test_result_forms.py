"""What the page needs for the form of a call that was handed to the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from result_form_agents import STOCK, set_stock, write_stock
from workbench_support import answer, call, workbench

AT = "/agents/shop/sessions/s-1"


def test_a_function_s_parameters_are_told_beside_what_the_model_filled_in(tmp_path: Path) -> None:
    with workbench(tmp_path, [call("orders__stock", item="tea")]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "Is there tea?"})
        (turn,) = bench.client.get(AT).json["turns"]
        assert turn["forms"] == [
            {
                "parameters": [
                    {
                        "name": "item",
                        "type": "string",
                        "required": True,
                        "description": "What.",
                        "choices": [],
                        "is_given": True,
                        "value": "tea",
                    }
                ],
                "result": None,
            }
        ]


def test_the_fields_of_an_api_call_are_those_of_its_response(tmp_path: Path) -> None:
    with workbench(write_stock(tmp_path), [set_stock()]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "Seven teas."})
        (form,) = bench.client.get(AT).json["turns"][0]["forms"]
        told = [
            (one["name"], one["type"], one["required"], one["choices"], one["value"])
            for one in form["parameters"]
        ]
        assert told == [
            ("item", "string", True, ["tea", "milk"], "tea"),
            ("count", "integer", True, [], "7"),
            ("note", "string", False, [], None),
        ]
        assert form["result"]["kind"] == "object"
        fields = {one["name"]: one for one in form["result"]["fields"]}
        assert {name: (one["kind"], one["required"]) for name, one in fields.items()} == {
            "id": ("text", True),
            "count": ("integer", True),
            "fresh": ("choice", False),
            "state": ("choice", True),
            "shelves": ("list", False),
            "other": ("json", False),
        }
        assert fields["id"]["description"] == "Its number."
        assert fields["state"]["choices"] == ['"full"', '"low"']
        assert fields["fresh"]["choices"] == ["true", "false"]
        assert fields["shelves"]["item"]["fields"][0]["kind"] == "number"


def test_fields_that_no_form_holds_are_written_as_json(tmp_path: Path) -> None:
    level = STOCK["components"]["schemas"]["Level"]
    many = {f"m{n}": {"type": "string"} for n in range(250)}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        deep = {"type": "object", "properties": {"in": deep}}
    for properties, path, kind in (
        ({**many}, [], None),
        ({"deep": deep}, ["deep", "in", "in", "in"], "json"),
    ):
        document = json.loads(json.dumps(STOCK))
        document["components"]["schemas"]["Level"] = {**level, "properties": properties}
        own = tmp_path / str(len(properties))
        own.mkdir()
        with workbench(write_stock(own, document), [set_stock()]) as bench:
            bench.client.post(f"{AT}/ask", {"question": "Seven teas."})
            (form,) = bench.client.get(AT).json["turns"][0]["forms"]
            found = form["result"]
            for name in path:
                (found,) = [one for one in found["fields"] if one["name"] == name]
            assert (found and found["kind"]) == kind


def test_a_response_that_cannot_be_read_leaves_the_agent_as_it_is(tmp_path: Path) -> None:
    document = json.loads(json.dumps(STOCK))
    document["components"]["schemas"]["Level"] = {"$ref": "#/components/schemas/Level"}
    with workbench(write_stock(tmp_path, document), [set_stock()]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "Seven teas."})
        (form,) = bench.client.get(AT).json["turns"][0]["forms"]
        assert form["result"] is None


def test_a_call_that_failed_ends_the_turn_or_is_told_to_the_model(tmp_path: Path) -> None:
    stock = call("orders__stock", item="tea")
    with workbench(tmp_path, [stock, stock, answer("None."), stock]) as bench:
        bench.client.post(f"{AT}/ask", {"question": "Is there tea?"})
        again = {"results": ["Which tea?"], "states": ["REPROMPT"]}
        assert bench.client.post(f"{AT}/ask", again).lines[-1]["stop_reason"] == "return_control"
        assert "Which tea?" in str(bench.model.requests[1].messages)
        assert bench.client.post(f"{AT}/ask", {"results": ["0"]}).lines[-1]["text"] == "None."
        bench.client.post(f"{AT}/ask", {"question": "Sure?"})
        wrong = bench.client.post(f"{AT}/ask", {"results": ["0"], "states": ["MAYBE"]})
        assert (wrong.status, "'FAILURE'" in wrong.json["message"]) == (400, True)
        failed = bench.client.post(f"{AT}/ask", {"results": ["broken"], "states": ["FAILURE"]})
        assert failed.lines[-1]["type"] == "error"
        assert bench.client.get(AT).json["turns"][1]["has_failed"] is True
