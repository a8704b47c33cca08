"""The agent, which acts, and the evaluator, which scores."""

from webgym.models.evaluator import Evaluator
from webgym.models.web_agent import WebAgent

__all__ = ["Evaluator", "WebAgent"]
