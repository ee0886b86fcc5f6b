"""The agents of a server, in folders and made through the API: stored, built, kept and deleted."""
