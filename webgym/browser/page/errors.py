"""What can come between us and a page while it is being asked something."""


class DocumentGoneError(Exception):
    """The page went on to another document, or its tab was closed."""


class ScriptError(Exception):
    """Our script failed inside the page."""
