"""`cdk.out`, what the AWS CDK synthesises: an app's templates, and the files that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.support.safe_json import json_or
from orchestrator.transfer.build_document import as_mapping
from orchestrator.transfer.project_files import ProjectFiles
from orchestrator.transfer.surroundings import Surroundings

_MOST_TEMPLATES = 200


@dataclass(frozen=True, slots=True)
class Assembly:
    """What the stacks of an app share."""

    exports: Mapping[str, str]  # what they export, by the names of the exports
    beside: Surroundings  # their functions and guardrails


def is_assembly(folder: Path) -> bool:
    """Whether a folder is what the CDK synthesised."""
    return (folder / "manifest.json").is_file() and any(folder.glob("*.template.json"))


def list_templates(folder: Path) -> list[Path]:
    """The templates of an app, also those of its stages and nested stacks; links are left out."""
    found = (it for it in folder.rglob("*.template.json") if it.is_file() and not it.is_symlink())
    return sorted(found)[:_MOST_TEMPLATES]


def read_assets(template: Path, files: ProjectFiles) -> dict[str, str]:
    """The files that a template names, by their keys in Amazon S3.

    Raises:
        DefinitionError: The list of assets is too large, or outside of the project.
    """
    # CDK: a nested stack's assets are in the list of the stack that holds it.
    own = template.name.removesuffix(".template.json") + ".assets.json"
    lists = [template.parent / own, *sorted(template.parent.glob("*.assets.json"))]
    assets: dict[str, str] = {}
    for file in dict.fromkeys(lists):
        if file.is_file():
            data = json_or(files.read_text(str(file)), None)
            for key, path in _iter_assets(as_mapping(data)):
                assets.setdefault(key, path)
    return assets


def _iter_assets(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for asset in as_mapping(data.get("files")).values():
        path = as_mapping(as_mapping(asset).get("source")).get("path")
        for destination in as_mapping(as_mapping(asset).get("destinations")).values():
            key = as_mapping(destination).get("objectKey")
            if isinstance(path, str) and isinstance(key, str):
                found.append((key, path))
    return found
