"""MiniWoB++, 130 small web tasks of others, served on loopback as web tasks with their rewards.

`server` serves them (`serving`), `rows` makes task files of them, and `package` finds their pages.
"""
