"""Prompts, the history in a chat, pages as text, and the parsing of replies."""
