"""The agent that acts, and the evaluator that judges."""
