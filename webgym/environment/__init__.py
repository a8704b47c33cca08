"""The environment that web agents act in."""
