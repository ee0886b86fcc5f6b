"""Agents as models of OpenAI's chat completions, for chat clients of every kind."""
