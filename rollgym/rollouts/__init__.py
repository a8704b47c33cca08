"""What a collection of tool agents reads and writes: rows in, rollouts out."""
