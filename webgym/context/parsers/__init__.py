"""What a model's reply means: strict grammar first, tolerances second and each recorded."""

from webgym.context.parsers.reply import Reply, parse_reply
from webgym.context.parsers.thinking import without_thinking

__all__ = ["Reply", "parse_reply", "without_thinking"]
