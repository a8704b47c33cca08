"""The viewer over HTTP: its page, its JSON, its events, and access control."""
