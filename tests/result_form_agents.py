"""An agent whose calls of an API are handed over, for tests of the form of their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench_support import call

STOCK: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Stock", "version": "1"},
    "paths": {
        "/stock/{item}": {
            "put": {
                "operationId": "setStock",
                "description": "Sets how many there are.",
                "parameters": [
                    {
                        "name": "item",
                        "in": "path",
                        "required": True,
                        "description": "What.",
                        "schema": {"type": "string", "enum": ["tea", "milk"]},
                    }
                ],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["count"],
                                "properties": {
                                    "count": {"type": "integer", "description": "How many."},
                                    "note": {"type": "string"},
                                },
                            }
                        }
                    }
                },
                "responses": {
                    "200": {
                        "description": "What is there now.",
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Level"}}
                        },
                    }
                },
            }
        }
    },
    "components": {
        "schemas": {
            "Level": {
                "type": "object",
                "required": ["id", "count", "state"],
                "properties": {
                    "id": {"type": "string", "readOnly": True, "description": "Its number."},
                    "secret": {"type": "string", "writeOnly": True},
                    "count": {"type": "integer"},
                    "fresh": {"type": "boolean"},
                    "state": {"type": "string", "enum": ["full", "low"]},
                    "shelves": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["row"],
                            "properties": {"row": {"type": "number"}},
                        },
                    },
                    "other": {"anyOf": [{"type": "string"}, {"type": "array"}]},
                },
            }
        }
    },
}


def write_stock(folder: Path, document: dict[str, Any] = STOCK) -> Path:
    """The folder of an agent that hands the calls of an API over."""
    own = folder / "shop"
    own.mkdir()
    (own / "stock.json").write_text(json.dumps(document))
    (own / "agent.yaml").write_text(
        """
agentName: shop
foundationModel: anthropic.claude-3-5-sonnet-20240620-v1:0
instruction: You keep the stock of a shop, and say how much of everything is left.
actionGroups:
  - actionGroupName: stock
    actionGroupExecutor:
      customControl: RETURN_CONTROL
    apiSchema:
      file: stock.json
"""
    )
    return own


def set_stock(**more: Any) -> list[dict[str, Any]]:
    """A reply that calls the API."""
    return call("PUT__stock__setStock", item="tea", count=7, **more)
