"""Going back from the start page, where there is nothing to go back to.

It opens the start page again. Who does it a third time in a row is stuck: in training that ends the
episode, which then is worth nothing.
"""

from urllib.parse import urldefrag

from webgym.browser.contract.commands import Command, VisitPage
from webgym.environment.actions import Action, GoBack
from webgym.tasks import Split

MOST_IN_A_ROW = 3


class GoingBack:
    """Counts how often an agent went back from the start page in a row."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._url = self._start = ""
        self._in_a_row = 0

    def begin(self, start: str) -> None:
        """The start page, as the browser names it after all redirects."""
        self._url, self._start = start, _page(start)

    def stuck(self, action: Action, url: str) -> bool:
        """Count this action, done on the page `url`; True where it ends the episode."""
        is_useless = isinstance(action, GoBack) and _page(url) == self._start
        self._in_a_row = self._in_a_row + 1 if is_useless else 0
        return self._split == "train" and self._in_a_row >= MOST_IN_A_ROW

    def command(self, usual: Command | None) -> Command | None:
        """What to do in the browser instead of the usual."""
        return VisitPage(self._url) if self._in_a_row else usual


def _page(url: str) -> str:
    """The address, less a place on the page; applications name their views in the same manner."""
    address, fragment = urldefrag(url)
    return url if fragment.startswith(("/", "!")) else address
