"""What went wrong with one try: the error it will be, before it is known whether anybody sees it.

Most faults are mended by another try, so they are values. The pool raises the last one.
"""

import msgspec

from rollgym.records import TRAITS, RolloutError


class Fault(msgspec.Struct, frozen=True):
    """`reason` completes a sentence that begins with the request: "answered 500: …".

    `retryable` overrides what is true of the error's kind, as it does for the error itself. `local`
    says that it is about this endpoint more than about the request: another may well take it.
    """

    error: type[RolloutError]
    reason: str
    retry_after: float | None = None
    retryable: bool | None = None
    local: bool = False

    @property
    def worth_retrying(self) -> bool:
        if self.retryable is not None:
            return self.retryable
        return TRAITS[self.error.kind].retryable

    def raised(self, sentence: str) -> RolloutError:
        """The error to raise, with the whole sentence as its message."""
        return self.error(sentence, retryable=self.retryable, retry_after=self.retry_after)
