"""Web tasks: the rows of a task file, and their rubrics."""
