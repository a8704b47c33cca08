"""Small pages to browse, served by a separate process so that no contender pays for them.

python -m benchmarks.browser_pages      # prints its address, serves until it is ended
"""

import asyncio
import sys

from aiohttp import web

PAGES = 50
LINKS = 12
_WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heath",
    "inlet",
    "juniper",
    "kelp",
    "lagoon",
]


def page(number: int) -> str:
    """A page a few screens long, with links that are always in the same places."""
    links = "".join(
        f'<a class="link" href="/page/{(number * 7 + index) % PAGES}">{_WORDS[index]}</a>'
        for index in range(LINKS)
    )
    articles = "".join(
        f"<article><h2>{_WORDS[(number + index) % LINKS].title()} {index}</h2>"
        f"<p>{' '.join(_WORDS[(number + index + step) % LINKS] for step in range(60))}</p>"
        f"<button>Keep</button></article>"
        for index in range(30)
    )
    return (
        f"<!doctype html><title>Page {number}</title><style>"
        "body{font:16px sans-serif;margin:0 40px}nav{display:flex;gap:10px;height:60px}"
        ".link{display:block;width:80px;line-height:60px}"
        "article{border:1px solid #ccc;border-radius:6px;margin:8px;padding:8px}"
        f"</style><nav>{links}</nav><h1>Page {number}</h1>{articles}"
    )


LINK_AT = (60, 30)
"""A point on the first link of every page."""


async def _answer(request: web.Request) -> web.Response:
    number = int(request.match_info["number"]) % PAGES
    return web.Response(text=page(number), content_type="text/html")


async def _serve() -> None:
    application = web.Application()
    application.router.add_get("/page/{number:[0-9]+}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    # Whoever started this ends it by closing its standard input.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
