"""What crosses the wire between the browser server and its clients."""
