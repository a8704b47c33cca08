"""The bundled test sites: a small web of our own, its tasks, and the truth about what was done.

`server` serves them (`serving`), `tasks` has what to do there, and `verify` judges how it went.
"""
