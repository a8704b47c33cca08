"""A Chromium process and the wire to it."""
