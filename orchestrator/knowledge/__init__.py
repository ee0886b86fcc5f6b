"""Retrieval backends; nothing here knows the loop."""

from orchestrator.knowledge.base import KnowledgeBase

__all__ = ["KnowledgeBase"]
