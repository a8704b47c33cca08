"""Text from elsewhere, made safe for a terminal.

Failure details carry what models, web pages and servers said. Escape sequences in them could move
the cursor, set the window's title or hide what happened, so nothing unprintable gets through.
"""

LINE_LIMIT = 160


def printable_line(text: str, limit: int = LINE_LIMIT) -> str:
    """The text on one line: runs of white space are one space, odd characters `\\ufffd`."""
    # A detail may have thousands of characters; those far beyond the limit cannot be seen anyway.
    words = " ".join(text[: 4 * limit].split())
    line = "".join(char if char.isprintable() else "\ufffd" for char in words)
    if len(line) <= limit:
        return line
    return f"{line[: limit - 1]}…"
