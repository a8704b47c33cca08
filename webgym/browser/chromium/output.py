"""What a browser writes to its standard streams: read always, and only the end of it is kept."""

import asyncio
import os

KEPT = 4_000
_AT_ONCE = 1 << 16


class OutputTail:
    """Reads a pipe, which it closes, so that its writers never block."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._kept = b""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Stop reading; harmless when repeated."""
        if not self._ended.done():
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended.set_result(None)

    async def complete(self, patience: float) -> str:
        """Its last lines, once all writers are gone, or when patience ends."""
        await asyncio.wait({self._ended}, timeout=patience)
        return self._kept.decode("utf-8", "backslashreplace").strip()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _AT_ONCE)
        except BlockingIOError:
            return
        if data:
            self._kept = (self._kept + data)[-KEPT:]
        else:
            self.close()
