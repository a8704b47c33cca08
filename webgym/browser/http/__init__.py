"""The browser server on the wire: its routes, who may ask, and the socket."""
