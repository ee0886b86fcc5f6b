"""The protocols of the server's port: HTTP/1.1, and HTTP/2 for clients that begin with it."""
