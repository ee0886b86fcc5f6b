"""Helpers without a subject of their own: threads, SQLite files, AWS clients, lazy imports."""
