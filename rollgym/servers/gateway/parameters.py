"""The parameters of an agent's requests: what the rollout sets replaces what the agent asked for.

Only parameters of sampling are replaced. What a request is about, such as its input and its tools,
is the agent's own. In the metadata, the parameters for the model server are replaced by theirs
(`rollgym.servers.responses.metadata`), and the rest stays.
"""

from typing import Any

from rollgym.servers.responses import JsonObject
from rollgym.servers.responses.metadata import EXTRA_BODY, TEMPLATE_KWARGS

_OF_THE_AGENT = frozenset(
    (
        *("input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "prompt"),
        *("stream", "stream_options", "previous_response_id", "conversation", "store", "include"),
        *("background", "truncation", "max_tool_calls", "model", "metadata"),
    )
)


class ForcedParameters:
    """The parameters of a rollout. `replaced` has the first values of an agent that they replaced.

    `given` are all parameters of the rollout's row; those of its request are left out.
    """

    def __init__(self, given: JsonObject) -> None:
        self.replaced: dict[str, Any] = {}
        self._forced = {name: each for name, each in given.items() if name not in _OF_THE_AGENT}
        metadata = given.get("metadata")
        kept = metadata if isinstance(metadata, dict) else {}
        carried = (EXTRA_BODY, TEMPLATE_KWARGS)
        self._carried = {name: kept[name] for name in carried if name in kept}

    def applied(self, params: JsonObject) -> JsonObject:
        """The parameters of a request as they are sent."""
        for name, value in self._forced.items():
            if name in params and params[name] != value:
                self.replaced.setdefault(name, params[name])
        sent = {**params, **self._forced}
        if self._carried:
            own = params.get("metadata")
            sent["metadata"] = {**(own if isinstance(own, dict) else {}), **self._carried}
        return sent
