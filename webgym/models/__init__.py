"""The agent that acts, and the evaluator that judges."""

from webgym.models.evaluator import Evaluator
from webgym.models.web_agent import WebAgent

__all__ = ["Evaluator", "WebAgent"]
