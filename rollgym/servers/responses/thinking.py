"""Reasoning written into the text itself, as `<think>…</think>` before the answer.

That is how a reasoning model's text arrives when its server does not parse it. Neither side is
trimmed, so that a history sent back is what the model wrote.
"""

OPENING = "<think>"
CLOSING = "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """Reasoning ("" if there is none) and the rest.

    Many chat templates open the tag in the prompt, so the text may begin inside it. A tag never
    closed means that the text was cut short while the model was reasoning.
    """
    thought, closing, rest = text.partition(CLOSING)
    opened = thought.lstrip()
    if opened.startswith(OPENING):
        return opened.removeprefix(OPENING), rest
    if closing and OPENING not in thought:
        return thought, rest
    return "", text


def join_thinking(reasoning: str, text: str) -> str:
    """The text with its reasoning in front."""
    return f"{OPENING}{reasoning}{CLOSING}{text}" if reasoning else text
