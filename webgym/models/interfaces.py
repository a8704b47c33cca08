"""The ways in which models want to be spoken to: `model_type`, in one table.

A type says whether the model thinks before it replies and whether it sees pictures, which
parameters its server needs beside the usual ones, and how it is sampled where the run does not say.
A new kind of model is a new line of the table.
"""

from collections.abc import Mapping
from difflib import get_close_matches

import msgspec

from rollgym.store import RefusedError

Params = Mapping[str, object]


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """One `model_type`.

    `sampling` holds where `policy_config` does not say; None: nothing about sampling is sent, also
    what `policy_config` says. `extra` goes with every request.
    """

    thinking: bool = False
    vision: bool = True
    sampling: Params | None = {}
    extra: Params = {}


INTERFACES: Mapping[str, Interface] = {
    "qwen3-instruct": Interface(
        sampling={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "max_tokens": 2048},
        extra={"chat_template_kwargs": {"enable_thinking": False}},
    ),
    "qwen3-think": Interface(
        thinking=True,
        sampling={"temperature": 1.0, "top_p": 0.95, "top_k": 20, "max_tokens": 8192},
        extra={"chat_template_kwargs": {"enable_thinking": True}},
    ),
    # Any chat model: it reads the page as text, and nothing is sent that only some servers know.
    "text": Interface(vision=False, sampling={"temperature": 0.7, "max_tokens": 2048}),
    # The policies that `rollgym policy serve` offers: programs, which nobody samples from.
    "baseline": Interface(vision=False, sampling=None),
}


def interface_of(model_type: str) -> Interface:
    """Raises RefusedError where there is no such type, naming the one that may be meant."""
    interface = INTERFACES.get(model_type)
    if interface is None:
        near = get_close_matches(model_type, INTERFACES, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(INTERFACES)}"
        raise RefusedError(f"model_config has no model_type {model_type!r:.60}: {hint}")
    return interface
