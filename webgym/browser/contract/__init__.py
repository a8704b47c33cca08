"""The contract of the browser server: commands, answers, errors and HTTP messages."""
