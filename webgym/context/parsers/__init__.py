"""Parsing of a model's reply: by a strict grammar first, then with tolerances that are recorded."""

from webgym.context.formats import ParsedReply
from webgym.context.parsers.reply import parse_reply, without_thinking

__all__ = ["ParsedReply", "parse_reply", "without_thinking"]
