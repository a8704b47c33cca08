"""The ways in which models want to be spoken to: `model_type`, in one table.

A type says whether the model thinks before it replies and whether it sees pictures, which
parameters its server needs beside the usual ones. A new kind of model is a new line of the table.
"""

from collections.abc import Mapping
from difflib import get_close_matches

import msgspec

Params = Mapping[str, object]


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """One `model_type`.

    `is_sampled` is False for programs, which get no sampling parameters. `common_parameters` are
    the sampling parameters that are always sent; None means all. `extra` goes with every request.
    """

    thinking: bool = False
    vision: bool = True
    is_sampled: bool = True
    common_parameters: frozenset[str] | None = None
    extra: Params = {}

    def sends(self, parameter: str) -> bool:
        """Whether the parameter is sent where the settings do not name it."""
        return self.common_parameters is None or parameter in self.common_parameters


INTERFACES: Mapping[str, Interface] = {
    "qwen3-instruct": Interface(extra={"chat_template_kwargs": {"enable_thinking": False}}),
    "qwen3-think": Interface(
        thinking=True, extra={"chat_template_kwargs": {"enable_thinking": True}}
    ),
    # Any chat model: it reads the page as text, and gets only parameters that every server knows.
    "text": Interface(vision=False, common_parameters=frozenset(("temperature", "max_tokens"))),
    # The policies that `rollgym policy serve` offers.
    "baseline": Interface(vision=False, is_sampled=False),
}


def interface_of(model_type: str) -> Interface:
    """The interface of a model type. Raises ValueError for an unknown type, with a suggestion."""
    interface = INTERFACES.get(model_type)
    if interface is None:
        near = get_close_matches(model_type, INTERFACES, 1)
        hint = f"did you mean {near[0]}?" if near else f"the types are {', '.join(INTERFACES)}"
        raise ValueError(f"unknown model_type {model_type!r:.60}: {hint}")
    return interface
