"""Agents whose whole definition is in one call."""
