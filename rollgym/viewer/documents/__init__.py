"""Documents: opened records, whose turns, sections and pictures are decoded on request."""
