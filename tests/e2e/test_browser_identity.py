"""What sites learn about the browser, by script and by header: nothing of its missing window."""

from aiohttp import web

from tests.e2e.browsing import Server, Visitor, html

_DATA = "JSON.stringify([navigator.userAgent, navigator.userAgentData])"
WORKER = f"postMessage({_DATA}); fetch('/from-worker')"
SHARED = f"onconnect = ({{ ports }}) => ports[0].postMessage({_DATA}); fetch('/from-shared')"
PAGE = f"""<!doctype html><title>Asking</title><script>
const say = (who, what) => document.body.append(`${{who}}: ${{what}} `);
onload = async () => {{
  const wanted = ["architecture", "fullVersionList", "platformVersion", "uaFullVersion"];
  say("page", {_DATA});
  say("details", JSON.stringify(await navigator.userAgentData.getHighEntropyValues(wanted)));
  new Worker("/worker.js").onmessage = ({{ data }}) => say("worker", data);
  new SharedWorker("/shared.js").port.onmessage = ({{ data }}) => say("shared worker", data);
  fetch("/from-page");
}}</script><iframe src=/frame></iframe><button onclick="window.open('/popup')">Open</button>"""
ASKED = (
    *("/", "/frame", "/popup", "/worker.js", "/shared.js"),
    *("/from-page", "/from-worker", "/from-shared"),
)
HINTS = {"Accept-CH": "Sec-CH-UA-Full-Version-List, Sec-CH-UA-Arch"}


def test_neither_pages_nor_servers_see_that_the_browser_is_headless(browser: Server) -> None:
    headers: dict[str, dict[str, str]] = {}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        headers[request.path] = {name.lower(): text for name, text in request.headers.items()}
        script = {"/worker.js": WORKER, "/shared.js": SHARED}.get(request.path)
        if script is not None:
            return web.Response(text=script, content_type="text/javascript")
        inner = f"<title>Inner</title><body><script>document.body.append({_DATA})</script>"
        response = html(PAGE if request.path == "/" else inner)
        response.headers.update(HINTS)
        return response

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= dict.fromkeys(ASKED, answer)
        await visitor.visit("/")
        seen = await visitor.text()
        for who in ("page: ", "details: ", "worker: ", "shared worker: "):
            assert who in seen
        assert (await visitor.click("Open")).page.title == "Inner"
        seen += await visitor.text()
        assert seen.count('"brand":"Chromium"') == 7  # twice in the details
        assert "Headless" not in seen
        assert set(headers) == set(ASKED)
        assert "Headless" not in str(headers)
        for path in ("/", "/frame", "/popup", "/from-page"):
            assert '"Chromium"' in headers[path]["sec-ch-ua"]
        assert '"Chromium";v="1' in headers["/frame"]["sec-ch-ua-full-version-list"]
        assert headers["/frame"]["sec-ch-ua-arch"] in {'"x86"', '"arm"'}

    browser.browse(scenario)
