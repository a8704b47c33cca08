"""What an agent sees now, and the rounds it remembers: in memory, with the pictures themselves."""

import msgspec

from webgym.browser.contract.answers import Element, PageInfo, Picture
from webgym.trajectory import Step


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The page now. `blob` names the stored picture; `text` is the page as text, where asked for.

    `feedback` tells the model what came of its last reply: why it was no action, or what the page
    did not let happen.
    """

    page: PageInfo
    picture: Picture | None = None
    blob: str = ""
    elements: tuple[Element, ...] = ()
    tree: str | None = None
    feedback: str | None = None


class Round(msgspec.Struct, frozen=True):
    """A step that is over, with what was seen then.

    The pictures, elements and trees of rounds that are out of the window may be dropped.
    """

    sight: Sight
    step: Step
