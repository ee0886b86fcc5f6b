"""The agents of a server, from folders and the API: stored, built, cached and deleted."""
