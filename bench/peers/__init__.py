"""Other agent frameworks in the same scripted conversation, each in an environment of its own."""
