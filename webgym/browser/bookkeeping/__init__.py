"""What a server keeps in mind: calls in flight, and sessions that ended."""
