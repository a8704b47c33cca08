"""Waiting until a page has come to rest."""

from tests.e2e.page_script.screen import LONG_AGO, Play, Screen


def test_quiet_waits_for_changes_images_and_animations_but_not_for_ever(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        script = screen.script
        await screen.show("<p id=p>Still</p>")
        assert await script.quiet(0.05, 5, LONG_AGO, screen.deadline) == "quiet"
        await screen.page.evaluate(
            """window.left = 5; const timer = setInterval(() => {
              document.body.append(String(left)); if (!--left) clearInterval(timer) }, 60)"""
        )
        assert await script.quiet(0.15, 10, LONG_AGO, screen.deadline) == "quiet"
        assert await screen.page.evaluate("left") == 0
        await screen.page.evaluate(
            """const p = document.getElementById('p'), fade = [{ opacity: 0.5 }, { opacity: 1 }];
            document.body.animate(fade, 400).onfinish = () => { document.title = 'ended' };
            p.animate(fade, { duration: 300, iterations: Infinity });
            setInterval(() => { p.firstChild.data = String(Math.random()) }, 10);"""
        )
        assert await script.quiet(0.05, 10, LONG_AGO, screen.deadline) == "quiet"
        assert await screen.page.title() == "ended"
        await screen.page.evaluate(
            "setInterval(() => document.body.append(document.createElement('i')), 5); 0"
        )
        assert await script.quiet(0.2, 0.3, LONG_AGO, screen.deadline) == "busy"

    play(scene)


def test_quiet_waits_for_an_image_in_view(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        async def never(_: object) -> None:
            return None

        await screen.page.route("**/slow.png", never)
        await screen.show('<img src="http://image.invalid/slow.png" width="50" height="50">')
        assert await screen.script.quiet(0.05, 0.3, LONG_AGO, screen.deadline) == "busy"
        await screen.page.evaluate("document.images[0].style.marginTop = '5000px'")
        assert await screen.script.quiet(0.05, 5, LONG_AGO, screen.deadline) == "quiet"

    # A page with a pending image never fires `load`, so it is written and not navigated to.
    async def written(screen: Screen) -> None:
        original = screen.page.set_content

        async def show(html: str) -> None:
            await original(html, wait_until="commit")

        screen.show = show  # type: ignore[method-assign]
        await scene(screen)

    play(written)
