"""Another project's client, unchanged, against our browser server with a real browser."""

import asyncio

from tests.counterparts.browser_client import MasterCounterpart
from tests.e2e.browsing import Server, Site

PAGE = (
    "<!doctype html><title>Start</title><body style='height: 3000px'>"
    "<button onclick='document.title = \"pressed\"'>Press me</button>"
    "<input aria-label=Name onkeydown='if (event.key == \"Enter\") document.title = value'>"
    "<a href='/next' style='position: absolute; top: 2500px'>Far below</a>"
)


def test_a_client_that_sends_back_what_get_answered_works_unchanged(browser: Server) -> None:
    def act(site: str) -> None:
        client = MasterCounterpart(browser.url)
        instance = client.get_instance(45)
        assert {"instance_id", "node"} < instance.keys()
        assert client.execute(instance, {"get_screenshot_info": {}})["visible_rects"] == []
        client.execute(instance, {"visit_page": {"url": site}})
        assert client.probe(instance)["status"] == "success"
        size = client.metadata(instance)
        assert (size["width"], size["height"]) == (1280, 768)
        assert client.screenshot(instance, "coordinates").startswith(b"\x89PNG")
        assert "text: Press me, tag: button" in client.accessibility_text(instance)
        assert client.screenshot(instance).startswith(b"\x89PNG")
        words = client.accessibility_text(instance).splitlines()
        assert [line.partition(", ")[2] for line in words] == [
            "text: Press me, tag: button",
            "text: Name, tag: input",
        ]
        info = client.execute(instance, {"get_screenshot_info": {}})
        regions = client.execute(instance, {"get_interactive_rects": {}})
        assert len(info["rects_below"]) == 1
        far = regions[info["rects_below"][0]]
        assert (far["tag_name"], far["role"], far["aria_name"]) == ("a", "link", "Far below")
        assert info["interactive_regions"] == regions
        ids = [line.split(",")[0].removeprefix("id: ") for line in words]
        (box,) = regions[ids[0]]["rects"]
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        client.execute(instance, {"click_coords": {"x": x, "y": y}})
        assert client.execute(instance, {"get_page_metadata": {}})["title"] == "pressed"
        fill = {"id": ids[1], "value": "Ada", "press_enter": True, "delete_existing": True}
        client.execute_by_query(instance, {"fill_id": fill})
        assert client.execute(instance, {"get_page_metadata": {}})["title"] == "Ada"
        for name in ("hover_and_scroll_coords", "scroll_coords"):
            wheel = {"x": 400, "y": 400, "direction": "Down"}
            assert client.execute(instance, {name: wheel}) == {"status": "success"}
        assert client.execute(instance, {"get_page_metadata": {}})["scroll_y"] > 0
        assert client.reset_instance(instance)["status"] == "success"

    async def scenario() -> None:
        async with Site().serving() as site:
            site.pages["/"] = PAGE
            await asyncio.to_thread(act, site.url)

    asyncio.run(scenario())
