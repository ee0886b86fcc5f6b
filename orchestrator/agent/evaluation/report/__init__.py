"""A run as one HTML page: plots drawn here as SVG, their tables, and every case that did not pass.

The page needs nothing but itself, runs no script, and shows whatever was said as text.
"""

from orchestrator.agent.evaluation.report.document import build_document
from orchestrator.agent.evaluation.report.page import build_context, build_report

__all__ = ["build_context", "build_document", "build_report"]
