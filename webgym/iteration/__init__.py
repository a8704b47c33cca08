"""An iteration on disk: its paths, its sample, its ranks, its files, and putting them together."""
