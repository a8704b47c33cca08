"""What one visitor has done, on all the sites: the truth that a verifier asks for.

Each site keeps a record of its own in the session. The records are plain data, so the truth is the
session written as JSON. Everything in it is bounded.
"""

import msgspec

from webgym.sites.booking.state import BookingState
from webgym.sites.bounds import remember
from webgym.sites.broken.state import BrokenState
from webgym.sites.captcha.state import CaptchaState
from webgym.sites.encyclopedia.state import EncyclopediaState
from webgym.sites.shop.state import ShopState
from webgym.sites.slow.state import SlowState
from webgym.sites.widgets.state import WidgetsState

VISITS_KEPT = 200


class Visit(msgspec.Struct, frozen=True):
    """A page that was shown."""

    path: str
    query: str


class Session(msgspec.Struct):
    """One visitor. Of the pages seen, the latest are kept.

    `lost` says that the visitor came with a session that was not known any more, so that more may
    have happened than is told here.
    """

    session: str
    lost: bool = False
    visit_count: int = 0
    visits: list[Visit] = msgspec.field(default_factory=list)
    shop: ShopState = msgspec.field(default_factory=ShopState)
    encyclopedia: EncyclopediaState = msgspec.field(default_factory=EncyclopediaState)
    booking: BookingState = msgspec.field(default_factory=BookingState)
    captcha: CaptchaState = msgspec.field(default_factory=CaptchaState)
    slow: SlowState = msgspec.field(default_factory=SlowState)
    broken: BrokenState = msgspec.field(default_factory=BrokenState)
    widgets: WidgetsState = msgspec.field(default_factory=WidgetsState)

    def saw(self, visit: Visit) -> None:
        self.visit_count += 1
        remember(self.visits, visit, VISITS_KEPT)
