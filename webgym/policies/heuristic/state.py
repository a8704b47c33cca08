"""What the heuristic remembers of a conversation: where it was and what it tried."""

import re
from collections import Counter
from urllib.parse import urldefrag, urljoin

from webgym.context.page_text import PageText
from webgym.policies.heuristic.answering import Candidate, Question
from webgym.policies.heuristic.assignment import Assignment
from webgym.policies.heuristic.clicks import Clicks
from webgym.policies.heuristic.fields import Fields
from webgym.policies.heuristic.intents import Intent, Pursuit
from webgym.policies.heuristic.proposals import Proposal

MOST_TRIES = 2
PATIENCE = ((24, 9), (45, 19), (10**6, 28))
"""A task of at most so many words ends after so many steps: short tasks have short episodes."""
_SESSION = re.compile(r"[?&]session=[^&#]*")


class State:
    """One conversation."""

    def __init__(self, task: str) -> None:
        self.task = Assignment(task)
        self.question = Question(self.task) if self.task.wants_answer else None
        self.fields = Fields(self.task)
        self.clicks = Clicks(self.task)
        length = len(self.task.text.split())
        self.patience = next(steps for most, steps in PATIENCE if length <= most)
        self.steps = 0
        self.has_acted = False
        """Whether anything but looking around was done."""
        self.pursuit: Pursuit | None = None
        self.best: Candidate | None = None
        self.visited: set[str] = set()
        self.looked: Counter[tuple[str, str]] = Counter()
        """How often a page was waited for or scrolled."""
        self.went_back = 0
        self._tried: Counter[tuple[Intent, str]] = Counter()

    def note(self, page: PageText) -> None:
        """One more step, on this page."""
        self.steps += 1
        self.visited.add(page_key(page.url))

    def is_new(self, proposal: Proposal, page: PageText) -> bool:
        """Whether it was not tried yet, and does not lead to where we have been."""
        intent = proposal.intent
        if proposal.leads_to and not proposal.leads_to.endswith("#"):
            there = page_key(urljoin(page.url, proposal.leads_to))
            if there in self.visited:
                return False
        most = MOST_TRIES if intent.kind == "type" and not _searches(intent) else 1
        return self._tried[_attempt(intent, page)] < most

    def begin(self, proposal: Proposal, page: PageText, pursuit: Pursuit) -> None:
        """Remember that this is being tried."""
        intent = proposal.intent
        self._tried[_attempt(intent, page)] += 1
        leads_away = intent.role == "link" and not proposal.leads_to.endswith("#")
        self.has_acted |= not leads_away and not _searches(intent)
        self.pursuit = pursuit


def _searches(intent: Intent) -> bool:
    return intent.kind == "type" and intent.role == "searchbox"


def _attempt(intent: Intent, page: PageText) -> tuple[Intent, str]:
    """An intent and its page; what was searched for once is known everywhere."""
    return intent, "" if _searches(intent) else page_key(page.url)


def page_key(url: str) -> str:
    """The same for the same page: without its fragment and the name of the session."""
    return _SESSION.sub("", urldefrag(url)[0]).rstrip("?&/")
