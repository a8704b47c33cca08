"""A Chromium process, and the DevTools connection to it."""
