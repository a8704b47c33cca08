"""Episodes: one attempt of an agent at a web task, in one browser session."""
