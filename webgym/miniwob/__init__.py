"""MiniWoB++: 130 small web tasks of another project, served locally with their rewards.

`application` serves them (`serving`), `rows` writes task files, and `package` finds the pages.
"""

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7310
