"""Helpers without a subject of their own: ids, threads, SQLite files, AWS clients, lazy imports."""
