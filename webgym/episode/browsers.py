"""What an episode needs of browsers: to take a session, act in it, and give it back.

`webgym.environment.client.BrowserClient` is one such source, in this process.
`webgym.environment.process_isolator.IsolatedBrowserClient` is another, through worker processes.
"""

from typing import Any, Protocol

from webgym.browser.contract.answers import Lease, Observe, StepAnswer
from webgym.browser.contract.commands import Command


class WebSession(Protocol):
    """One session, until it is given back."""

    @property
    def lease(self) -> Lease: ...

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """Carry out a command and observe; what the page did not let happen is in the answer.

        Raises BrowserError where the session is lost, BrowserUnavailableError, DeadlineError.
        """


class Browsers(Protocol):
    """Where sessions come from."""

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> WebSession:
        """Take a session, waiting for one for at most `wait_seconds`.

        Raises BrowserUnavailableError where none was free in time, DeadlineError.
        """

    async def release(self, session: Any) -> None:
        """Give a session of `get` back; each source takes its own kind. Raises nothing."""
