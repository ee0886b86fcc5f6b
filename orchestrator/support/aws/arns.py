"""Patterns of Amazon resource names (AWS: "Amazon Resource Names")."""

from __future__ import annotations

import re

ALIAS_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]{1,20}):(?P<account>[0-9]{12}):agent-alias/"
    r"(?P<agent>[0-9A-Za-z]{10})/(?P<alias>[0-9A-Za-z]{10})"
)
"""The ARN of an agent's alias."""
