"""Agents carried from one place to another: out of AWS or a server, into a folder, and back."""
