"""The baseline policy: a program behind the HTTP interface of a model.

It replays recorded solutions. The model name says that it is a baseline, so that its results cannot
be mistaken for a model's.
"""

POLICY_NAME = "scripted"
MODEL_NAME = "scripted-baseline"

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7320
DEFAULT_SEED = 0
