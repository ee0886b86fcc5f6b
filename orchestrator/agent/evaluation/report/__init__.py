"""A run as one HTML page: plots drawn here as SVG, their tables, and every case that did not pass.

The page needs nothing but itself, runs no script, and shows whatever was said as text.
"""

from orchestrator.agent.evaluation.report.page import build_report

__all__ = ["build_report"]
