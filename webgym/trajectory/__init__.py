"""Trajectories: the steps of an episode, the model's responses, and the verdict."""
