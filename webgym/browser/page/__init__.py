"""Inside one browser session: tabs, input, screenshots, elements."""
