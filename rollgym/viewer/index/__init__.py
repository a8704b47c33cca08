"""The index of a source: where its records are, and enough of each for lists and charts."""
