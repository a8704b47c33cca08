"""A browser server with a fake pool, in a process of its own.

python -m tests.integration.webgym.browser.server.process '{"role": "master"}'
"""

import asyncio
from typing import cast

import msgspec

from tests.counterparts.life import begin, parser
from tests.integration.webgym.browser.server.fake_pool import FakePool
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.server import bind, serving
from webgym.browser.settings import BrowserSettings, read_token


async def serve(settings: BrowserSettings, end_with_stdin: bool) -> None:
    token = read_token()
    settings.check(token)
    pool = FakePool(settings.sessions) if settings.has_browsers else None
    with bind(settings) as bound:
        async with serving(settings, token, bound, cast("BrowserPool | None", pool)):
            begin(bound.getsockname()[1], end_with_stdin=end_with_stdin)
            await asyncio.Event().wait()


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "settings", type=lambda text: msgspec.json.decode(text, type=BrowserSettings)
    )
    chosen = options.parse_args()
    settings = msgspec.structs.replace(chosen.settings, port=chosen.port)
    asyncio.run(serve(settings, chosen.end_with_stdin))


if __name__ == "__main__":
    main()
