"""What a web run looks like while it runs: as a board, as lines, as JSON and as events."""
