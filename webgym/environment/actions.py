"""The definitions of all actions."""

from webgym.actions import space
from webgym.actions.space import *  # noqa: F403 - exactly the names of `space.__all__`
from webgym.actions.tool_calls import actions_of, call_schema, read_action, tool_schema

__all__ = ["actions_of", "call_schema", "read_action", "tool_schema"]
__all__ += space.__all__
