"""Objects that are closed at the end of their `with` block."""

from typing import Self


class Closable:
    """Base of objects that hold files or threads until `close` is called."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClosable:
    """Base of objects that hold connections, tasks or processes until `close` is awaited."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
