"""How an agent is shown pages and asked for actions: the `context_config` of a run."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from webgym.browser.contract.commands import InteractionMode

PromptVersion = Literal["complete", "vanilla"]
ObservationKind = Literal["image", "text", "both"]
_DEFAULT_OBSERVATION: dict[InteractionMode, ObservationKind] = {
    "coordinates": "image",
    "set_of_marks": "both",
}


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`interaction_mode` says how the model aims, `prompt_version` what its reply consists of.

    `observation` is what it sees of a page: a screenshot, text, or both; None chooses by the mode.
    `window` rounds are shown in full beside the current page, older ones as a line each.
    `page_characters` bounds the text of a page. `thinking` says that the model thinks before it
    replies, and that a lone `</think>` ends that.
    """

    interaction_mode: InteractionMode = "coordinates"
    prompt_version: PromptVersion = "complete"
    observation: ObservationKind | None = None
    window: Annotated[int, Meta(ge=0, le=100)] = 4
    page_characters: Annotated[int, Meta(ge=1_000, le=1_000_000)] = 20_000
    thinking: bool = False

    @property
    def shows_image(self) -> bool:
        """Whether a message has the screenshot."""
        return self._seen != "text"

    @property
    def shows_text(self) -> bool:
        """Whether a message has the page's elements and its text."""
        return self._seen != "image"

    @property
    def _seen(self) -> ObservationKind:
        return self.observation or _DEFAULT_OBSERVATION[self.interaction_mode]
