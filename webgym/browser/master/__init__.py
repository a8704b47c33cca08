"""The master: chooses the node for a new session, and finds the node of a request."""
