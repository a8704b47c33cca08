"""The viewer over HTTP: its page, its JSON, its events; who may ask, and for what."""
