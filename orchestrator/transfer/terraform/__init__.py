"""Agents in Terraform: its sources, its plans and its states."""
