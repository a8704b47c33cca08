"""How an agent is shown pages and asked for actions: the `context_config` of a run."""

from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from rollgym.numbers import number
from webgym.browser.contract.answers import ImageFormat, Observe
from webgym.browser.contract.commands import InteractionMode
from webgym.context.formats import ObservationKind, PromptFormat, find_format
from webgym.settings import SettingsSection

_DEFAULT_OBSERVATION: dict[InteractionMode, ObservationKind] = {
    "coordinates": "image",
    "set_of_marks": "both",
}


class ContextConfig(SettingsSection):
    """The keys of `context_config`."""

    interaction_mode: InteractionMode = Field(
        default="coordinates",
        description="whether the model points at coordinates or numbered elements",
    )
    observation: ObservationKind | None = Field(
        default=None,
        description="what the model sees of a page (null: `image` with coordinates, `both` with "
        "set_of_marks)",
    )
    window: Annotated[int, BeforeValidator(number), Field(ge=0, le=100)] = Field(
        default=4,
        description="number of past steps shown in full; older ones are shown as one line each",
    )
    page_characters: Annotated[int, BeforeValidator(number), Field(ge=1_000, le=1_000_000)] = Field(
        default=20_000, description="longest text of a page, in characters"
    )
    screenshot_format: ImageFormat = Field(
        default="png",
        description="format of the screenshots that the model sees and the files keep",
    )
    screenshot_quality: Annotated[int, BeforeValidator(number), Field(ge=0, le=100)] = Field(
        default=80, description="quality of jpeg and webp screenshots"
    )


class ContextSettings(ContextConfig):
    """The whole context of an agent: `context_config`, and what depends on the type of its model.

    `prompt_version` names the format of prompts and replies. `thinking` says that the model thinks
    before it replies, and that a lone `</think>` ends its thoughts. `accessibility_tree` says
    whether the tree of every page is kept; None keeps it if the model is shown text, which is made
    from it.
    Screenshots are always kept, because judges and readers look at them.
    """

    prompt_version: str = "complete"
    thinking: bool = False
    accessibility_tree: bool | None = None

    @field_validator("prompt_version", mode="after")
    @classmethod
    def _is_known(cls, value: str) -> str:
        find_format(value)
        return value

    @property
    def format(self) -> PromptFormat:
        """How prompts are written and replies are read."""
        return find_format(self.prompt_version)

    @property
    def shows_image(self) -> bool:
        """Whether a message contains the screenshot."""
        return self.shown != "text"

    @property
    def shows_text(self) -> bool:
        """Whether a message contains the page's elements and its text."""
        return self.shown != "image"

    @property
    def observe(self) -> Observe:
        """What a step in the browser must return."""
        tree = self.accessibility_tree
        return Observe(
            interaction_mode=self.interaction_mode,
            screenshot=self.screenshot_format,
            quality=self.screenshot_quality,
            elements=True if self.shows_text else None,
            tree=self.shows_text if tree is None else tree,
        )

    @property
    def shown(self) -> ObservationKind:
        """What the model sees of a page."""
        return self.observation or _DEFAULT_OBSERVATION[self.interaction_mode]
