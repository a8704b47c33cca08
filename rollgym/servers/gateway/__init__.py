"""The gateway for agents that other people wrote: each rollout has a base URL and a key of its own.

An agent that speaks OpenAI Responses, OpenAI Chat Completions or Anthropic Messages becomes a
rollout without a change: its calls go through a session of the gateway (`session.py`), which keeps
the conversations (`conversations.py`) and the tokens. `dialects.py` has the three APIs, and
`gateway.py` the port.
"""
