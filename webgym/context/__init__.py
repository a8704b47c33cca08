"""What the model is told and what its reply means: prompts, history, parsers."""
