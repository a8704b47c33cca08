"""Every command of the contract, in a real browser behind the real server, in both modes.

What a command did is read from the page itself, or from what reached its site.
"""

import socket
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import msgspec
import pytest
from aiohttp import web

from tests.cases import for_each
from tests.e2e.browsing import (
    VIEWPORT,
    Scenario,
    Server,
    Visitor,
    kinds,
    middle,
    size_of,
)
from webgym.browser.contract.answers import Incident
from webgym.browser.contract.commands import (
    Back,
    ClickCoords,
    ClickId,
    FillCoords,
    FillId,
    HoverAndScrollCoords,
    HoverCoords,
    Keypress,
    PageDown,
    PageUp,
    ScrollId,
    SelectOption,
    Sleep,
    TabAndEnter,
    VisitPage,
)
from webgym.browser.contract.errors import (
    NavigationError,
    NavigationRefusedError,
    UnknownElementError,
)
from webgym.browser.contract.profile import SessionProfile

TALL = "<div style='height: 3000px'>tall</div>"


def test_visiting_answers_with_the_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        answer = await visitor.show("<title>Harbour</title><h1>Boats</h1>")
        assert answer.result == {"status": "success"}
        assert answer.page.url == f"{visitor.site.url}/"
        assert answer.page.title == "Harbour"
        assert (answer.page.status, answer.page.tabs, answer.page.loading) == (200, 1, False)
        assert (answer.page.width, answer.page.height) == VIEWPORT
        assert answer.settled
        assert answer.elements is None
        assert set(answer.timings) == {"command", "settle", "observe"}
        assert size_of(answer.screenshot) == VIEWPORT

    browser.browse(scenario)


def test_a_bare_host_is_enough_and_redirects_are_followed(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        async def redirect(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": "/there"})

        visitor.site.pages |= {"/here": redirect, "/there": "<title>There</title>"}
        bare = visitor.site.url.removeprefix("http://")
        answer = await visitor.step(VisitPage(f"{bare}/here"))
        assert answer.page.url == f"{visitor.site.url}/there"
        assert visitor.site.asked == ["/here", "/there"]

    browser.browse(scenario)


def test_a_missing_page_is_a_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        missing = await visitor.visit("/missing")
        assert (missing.page.status, missing.page.title) == (404, "Missing")
        found = await visitor.show("<title>Found</title>")
        assert found.page.status == 200
        empty = await visitor.step(VisitPage("about:blank"))
        assert empty.page.status is None

    browser.browse(scenario)


def test_a_page_that_cannot_be_opened_is_a_failed_navigation(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        dead = f"http://127.0.0.1:{port}/"
        answer = await visitor.session.step(VisitPage(dead))
        assert answer.error is not None
        assert answer.error.type == "navigation_failed"
        assert dead in answer.error.message
        assert answer.page.url == dead
        assert answer.page.status is None
        problem = await visitor.refused(VisitPage("http://no-such-host.invalid/"))
        assert problem.type == "navigation_failed"
        with pytest.raises(NavigationError, match=str(port)):
            await visitor.session.visit_page(dead)
        await visitor.show("<title>Alive</title>")

    browser.browse(scenario)


def test_urls_that_are_not_websites_or_not_allowed_are_rejected(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        for url in (
            "file:///etc/passwd",
            "chrome://version",
            "chrome://crash",
            "data:text/html,got",
            "javascript:alert(1)",
            "view-source:http://127.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://10.0.0.1/",
        ):
            problem = await visitor.refused(VisitPage(url))
            assert problem.type == "navigation_refused", url
            with pytest.raises(NavigationRefusedError):
                await visitor.session.visit_page(url)

    browser.browse(scenario)


def test_going_back_shows_the_page_before(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show("<title>One</title>", "/one")
        await visitor.show("<title>Two</title><script>history.pushState(0, '', '/in')</script>")
        answer = await visitor.step(Back())
        assert answer.result == {"status": "success", "moved": True}
        assert (answer.page.url, answer.page.title) == (f"{visitor.site.url}/", "Two")
        answer = await visitor.step(Back())
        assert (answer.page.title, answer.result["moved"]) == ("One", True)
        answer = await visitor.step(Back())
        assert (answer.page.title, answer.result["moved"]) == ("One", False)

    browser.browse(scenario)


OPENERS = (
    "<a href='/new' target='_blank'>Open</a>",
    "<button onclick='window.open(`/new`)'>Open</button>",
    "<form action='/new' target='_blank'><button>Open</button></form>",
)


def test_a_new_tab_that_gets_no_page_is_closed_again(browser: Server) -> None:
    async def nothing(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=204)

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/nothing"] = nothing
        for address in ("/nothing", "mailto:ann@example.org", "javascript:void(0)"):
            await visitor.show(f"<title>Old</title><a href='{address}' target=_blank>Open</a>")
            answer = await visitor.click("Open")
            assert (answer.page.title, answer.page.tabs, answer.settled) == ("Old", 1, True)
            assert "new_tab" not in kinds(answer)

    browser.browse(scenario)


def test_a_new_tab_is_followed_and_back_returns(browser: Server) -> None:
    def opening(number: int, opener: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            await visitor.show(f"<title>Old</title>{opener}", f"/old/{number}")
            answer = await visitor.click("Open")
            assert (answer.page.title, answer.page.tabs) == ("New", 2)
            assert kinds(answer) == ["new_tab"]
            answer = await visitor.click("Inside")
            assert (answer.page.title, answer.page.tabs) == ("Further", 2)
            answer = await visitor.step(Back())
            assert (answer.page.title, answer.page.tabs) == ("New", 2)
            answer = await visitor.step(Back())
            assert (answer.page.title, answer.page.tabs) == ("Old", 1)
            assert answer.result["moved"] is True

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/new"] = "<title>New</title><a href='/further'>Inside</a>"
        visitor.site.pages["/further"] = "<title>Further</title>"
        await visitor.in_turn(
            {opener: opening(number, opener) for number, opener in enumerate(OPENERS)}
        )

    browser.browse(scenario)


CLICKED = {
    "link": "<a href='/end'>Go</a>",
    "script": "<button onclick='location = `/end`'>Go</button>",
    "submit": "<form action='/end'><input type=submit value=Go></form>",
    "far-down": "<div style='height: 3000px'></div><a href='/end'>Go</a>",
    "frame": "<iframe srcdoc='<a target=_top href=/end>Go</a>'></iframe>",
    "shadow": "<div><template shadowrootmode=open><a href='/end'>Go</a></template></div>",
    "role": "<span role=button tabindex=0 onclick='location = `/end`'>Go</span>",
}


def test_clicking_acts_on_the_element(browser: Server) -> None:
    def clicking(name: str, page: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            await visitor.show(page, f"/pages/{name}")
            if visitor.mode == "coordinates" and name == "far-down":
                await visitor.step(PageDown(3000))
            answer = await visitor.click("Go")
            assert answer.page.title == "End"
            assert answer.result == {"status": "success"}

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/end"] = "<title>End</title>"
        await visitor.in_turn({name: clicking(name, page) for name, page in CLICKED.items()})

    browser.browse_in_both_modes(scenario)


def test_a_tick_box_is_ticked_by_a_click(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show("<label><input type=checkbox> Agree</label>")
        assert (await visitor.element("Agree")).checked is False
        await visitor.click("Agree")
        assert (await visitor.element("Agree")).checked is True

    browser.browse_in_both_modes(scenario)


def test_text_is_added_or_replaces(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        counting = "oninput='document.title = value.length'"
        await visitor.show(f"<input aria-label=Name value=Ada {counting}>")
        await visitor.fill("Name", " Lovelace")
        assert (await visitor.element("Name")).value == "Ada Lovelace"
        await visitor.fill("Name", "Zoë 東京 🚢 <&>", replace=True)
        assert (await visitor.element("Name")).value == "Zoë 東京 🚢 <&>"
        await visitor.fill("Name", "long " * 100, replace=True)
        length = len("long " * 100)
        assert (await visitor.step()).page.title == f"{length}"
        await visitor.fill("Name", "", replace=True)
        assert (await visitor.element("Name")).value == ""

    browser.browse_in_both_modes(scenario)


def test_enter_submits_what_was_typed(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/search"] = "<title>Found</title>"
        await visitor.show("<form action='/search'><input name=q aria-label=Search></form>")
        answer = await visitor.fill("Search", "a & b+c", enter=True)
        assert answer.page.title == "Found"
        assert visitor.site.asked[-1] == "/search?q=a+%26+b%2Bc"

    browser.browse_in_both_modes(scenario)


@for_each(
    "field",
    ["<textarea aria-label=Letter></textarea>", "<div contenteditable aria-label=Letter></div>"],
)
def test_lines_are_kept(browser: Server, field: str) -> None:
    async def scenario(visitor: Visitor) -> None:
        read = "document.title = JSON.stringify((this.value ?? this.innerText).split(`\\n`))"
        await visitor.show(field.replace(" aria", f' oninput="{read}" aria', 1))
        answer = await visitor.fill("Letter", "Dear sea,\nwaves\tand salt", replace=True)
        assert msgspec.json.decode(answer.page.title) == ["Dear sea,", "waves\tand salt"]
        answer = await visitor.fill("Letter", "Sky", replace=True)
        assert msgspec.json.decode(answer.page.title) == ["Sky"]
        answer = await visitor.fill("Letter", "!", enter=True)
        assert msgspec.json.decode(answer.page.title)[:2] == ["Sky!", ""]

    browser.browse(scenario)


def test_typing_is_seen_by_the_scripts_of_the_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(
            "<input aria-label=Code maxlength=4><output></output><script>"
            "const said = []; const field = document.querySelector('input');"
            "for (const kind of ['focus', 'keydown', 'input', 'keyup', 'change'])"
            " field.addEventListener(kind, (e) => { said.push(kind + (e.key ?? ''));"
            "  document.title = said.join(' ') });"
            "</script>"
        )
        answer = await visitor.fill("Code", "aB", enter=True)
        assert answer.page.title == (
            "focus keydownControl keydownEnd keyupEnd keyupControl"
            " keydowna input keyupa keydownB input keyupB keydownEnter change keyupEnter"
        )
        await visitor.fill("Code", "123456", replace=True)
        assert (await visitor.element("Code")).value == "1234"

    browser.browse(scenario)


KINDS = {
    "date": ("5/4/2026", "2026-05-04"),
    "time": ("2:30 pm", "14:30"),
    "datetime-local": ("2026-05-04 14:30", "2026-05-04T14:30"),
    "month": ("2026-05", "2026-05"),
    "color": ("#FF0000", "#ff0000"),
    "range": ("70", "70"),
    "number": ("42", "42"),
    "email": ("a@b.example", "a@b.example"),
    "password": ("s3cret", "s3cret"),
    "search": ("line one\nline two\tthree", "line one line two\tthree"),
}


def test_fields_of_every_kind_are_filled(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/sent"] = "<title>Sent</title>"
        fields = "".join(
            f"<p><input type={kind} name={kind} aria-label={kind} onchange='document.title = name'>"
            for kind in KINDS
        )
        await visitor.show(f"<form action='/sent'>{fields}<button>Send</button></form>")
        for kind, (given, _) in KINDS.items():
            await visitor.fill(kind, given, replace=True)
        answer = await visitor.click("Send")
        assert answer.page.title == "Sent"
        sent = dict(parse_qsl(urlsplit(visitor.site.asked[-1]).query))
        assert sent == {kind: held for kind, (_, held) in KINDS.items()}

    browser.browse_in_both_modes(scenario)


SELECT = (
    "<form action='/sent'><select name=size aria-label=Size onchange='document.title = value'>"
    "<option value=s>Small<option value=m>Medium<option value=l>Large</select>"
    "<button>Send</button></form>"
)


def test_a_list_opens_in_the_page_and_its_option_is_clicked(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/sent"] = "<title>Sent</title>"
        closed = await visitor.show(SELECT)
        opened = await visitor.click("Size")
        assert opened.screenshot != closed.screenshot
        large = await visitor.element("Large")
        assert (large.role, large.in_view) == ("option", True)
        chosen = await visitor.click("Large")
        assert chosen.page.title == "l"
        assert "Large" not in await visitor.elements()
        assert (await visitor.element("Size")).value == "Large"
        await visitor.click("Send")
        assert visitor.site.asked[-1] == "/sent?size=l"

    browser.browse_in_both_modes(scenario)


def test_an_option_is_selected_by_its_id_its_value_or_its_label(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(SELECT)
        size = await visitor.element("Size")
        assert [option.text for option in size.options] == ["Small", "Medium", "Large"]
        answer = await visitor.step(SelectOption(size.options[1].id))
        assert answer.page.title == "m"
        result = {"status": "success", "label": "Medium", "value": "m", "changed": True}
        assert answer.result == result
        assert (await visitor.step(SelectOption(size.id, "l"))).page.title == "l"
        assert (await visitor.step(SelectOption(size.id, "small"))).page.title == "s"
        assert (await visitor.step(FillId(size.id, "Large"))).page.title == "l"
        again = await visitor.step(SelectOption(size.id, "Large"))
        assert again.result["changed"] is False
        problem = await visitor.refused(SelectOption(size.id, "Huge"))
        assert problem.type == "command_failed"
        assert "Small, Medium, Large" in problem.message

    browser.browse(scenario, "set_of_marks")


def test_hovering_opens_a_menu(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/tea"] = "<title>Tea</title>"
        await visitor.show(
            "<style>nav div { display: none } nav:hover div { display: block }</style>"
            "<nav style='width: 200px'><button>Menu</button>"
            "<div><a href='/tea'>Tea</a></div></nav>"
        )
        assert "Tea" not in await visitor.elements()
        await visitor.hover("Menu")
        answer = await visitor.click("Tea")
        assert answer.page.title == "Tea"

    browser.browse_in_both_modes(scenario)


SCROLLERS = (
    "<div aria-label=Inner tabindex=0 style='height: 200px; width: 300px; overflow: auto'"
    " onscroll='document.title = `${this.scrollLeft},${this.scrollTop}`'>"
    "<div style='height: 2000px; width: 2000px'>inner</div></div>" + TALL
)


def test_the_wheel_turns_what_lies_under_it(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(SCROLLERS)
        answer = await visitor.step(HoverAndScrollCoords(100, 100, "down"))
        assert (answer.page.title, answer.page.scroll_y) == ("0,160", 0)
        answer = await visitor.step(HoverAndScrollCoords(100, 100, "right"))
        assert answer.page.title == "240,160"
        answer = await visitor.step(HoverAndScrollCoords(100, 100, "up"))
        assert answer.page.title == "240,0"
        answer = await visitor.step(HoverAndScrollCoords(600, 500, "down"))
        assert (answer.page.title, answer.page.scroll_y) == ("240,0", 400)

    browser.browse(scenario)


def test_an_area_is_scrolled_by_its_id(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(SCROLLERS)
        inner = await visitor.element("Inner")
        assert inner.scrollable
        answer = await visitor.step(ScrollId(inner.id, "down"))
        assert answer.result == {"status": "success", "moved": True}
        assert answer.page.title == "0,160"
        answer = await visitor.step(ScrollId(inner.id, "right"))
        assert answer.page.title == "240,160"
        answer = await visitor.step(ScrollId(inner.id, "up"))
        assert answer.page.title == "240,0"
        answer = await visitor.step(ScrollId(inner.id, "up"))
        assert answer.result["moved"] is False
        assert answer.page.scroll_y == 0

    browser.browse(scenario, "set_of_marks")


@for_each("doctype", ["<!doctype html>", "<!-- quirks -->"])
def test_the_page_is_scrolled_by_pixels_or_by_screens(browser: Server, doctype: str) -> None:
    styles = ("", "html, body { overflow-x: hidden }", "body { height: 100%; overflow: auto }")

    async def scenario(visitor: Visitor) -> None:
        for style in styles:
            await visitor.show(f"{doctype}<title>Tall</title><style>{style}</style>{TALL}")
            answer = await visitor.step(PageDown(300))
            assert answer.result == {"status": "success", "moved": True}, style
            assert answer.page.scroll_y == 300
        assert (await visitor.step(PageDown())).page.scroll_y == 500
        assert (await visitor.step(PageUp(100))).page.scroll_y == 400
        assert (await visitor.step(PageDown(full_page=True))).page.scroll_y == 400 + 718
        answer = await visitor.step(PageUp(100_000))
        assert (answer.page.scroll_y, answer.result["moved"]) == (0, True)
        answer = await visitor.step(PageUp())
        assert answer.result["moved"] is False

    browser.browse(scenario)


def test_keys_are_pressed_together(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(
            "<script>onkeydown = (e) => { if (e.ctrlKey) e.preventDefault(); document.title ="
            " [e.ctrlKey && 'C', e.altKey && 'A', e.shiftKey && 'S', e.key, e.code]"
            ".filter(Boolean).join('+') }</script><input aria-label=Word value=abc>"
        )
        for keys, seen in (
            (("Enter",), "Enter+Enter"),
            (("Control", "k"), "C+k+KeyK"),
            (("ctrl+shift+k",), "C+S+k+KeyK"),
            (("Alt", "ArrowUp"), "A+ArrowUp+ArrowUp"),
            (("Escape",), "Escape+Escape"),
            (("F2",), "F2+F2"),
            (("?",), "?+Slash"),
            (("Page_Down",), "PageDown+PageDown"),
        ):
            assert (await visitor.step(Keypress(keys))).page.title == seen

    browser.browse(scenario)


def test_keys_edit_and_move(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(
            "<input aria-label=Word value=abc><textarea aria-label=Copy></textarea>"
            f"<dialog open onclose='document.title = `closed`'>Hello</dialog>{TALL}"
            "<script>document.querySelector('dialog').close();"
            "document.querySelector('dialog').showModal()</script>"
        )
        assert (await visitor.step(Keypress(("Escape",)))).page.title == "closed"
        await visitor.fill("Word", "")
        await visitor.step(Keypress(("Control", "a")))
        await visitor.step(Keypress(("Control", "c")))
        await visitor.step(Keypress(("Tab",)))
        assert (await visitor.element("Copy")).focused
        await visitor.step(Keypress(("Control", "v")))
        assert (await visitor.element("Copy")).value == "abc"
        await visitor.step(Keypress(("Shift", "Tab")))
        assert (await visitor.element("Word")).focused
        await visitor.step(Keypress(("Home",)))
        await visitor.step(Keypress(("Shift", "End")))
        await visitor.step(Keypress(("x",)))
        assert (await visitor.element("Word")).value == "x"
        await visitor.step(Keypress(("Control", "z")))
        assert (await visitor.element("Word")).value == "abc"
        await visitor.step(Keypress(("Backspace",)))

    browser.browse(scenario)


def test_keys_scroll_the_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(f"<title>Tall</title>{TALL}")
        assert (await visitor.step(Keypress(("PageDown",)))).page.scroll_y > 500
        assert (await visitor.step(Keypress(("End",)))).page.scroll_y > 2000
        assert (await visitor.step(Keypress(("Home",)))).page.scroll_y == 0

    browser.browse(scenario)


def test_tab_and_enter_presses_what_comes_next(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/next"] = "<title>Next</title>"
        await visitor.show("<input aria-label=Word><a href='/next'>Next</a>")
        await visitor.fill("Word", "x")
        assert (await visitor.step(TabAndEnter())).page.title == "Next"

    browser.browse(scenario)


def test_sleeping_lets_the_page_go_on(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show("<script>setTimeout(() => { document.title = 'Late' }, 1500)</script>")
        assert (await visitor.step(Sleep(2))).page.title == "Late"
        problem = await visitor.refused(Sleep(20), within=-10)
        assert problem.type == "command_failed"
        assert "deadline" in problem.message

    browser.browse(scenario)


DIALOGS = (
    ("alert(`Mind the gap`)", "undefined", "alert: Mind the gap"),
    ("confirm(`Sure?`)", "true", "confirm: Sure? (answered OK)"),
    ("prompt(`Name?`, `Ada`)", "Ada", "prompt: Name? (answered 'Ada')"),
    ("prompt(`Name?`)", "", "prompt: Name? (answered '')"),
    ("frames[0].confirm(`Inside?`)", "true", "confirm: Inside? (answered OK)"),
)


def test_dialogs_are_answered_and_told(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        for call, answered, told in DIALOGS:
            await visitor.show(
                f'<button onclick="document.title = `got ${{{call}}}`">Ask</button>'
                "<iframe srcdoc='<p>frame'></iframe>"
            )
            answer = await visitor.click("Ask")
            assert answer.page.title == f"got {answered}".strip()
            assert answer.incidents == (Incident("dialog", told),)
        assert (await visitor.step()).incidents == ()

    browser.browse(scenario)


def test_a_session_may_dismiss_dialogs(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        profile = SessionProfile(accept_dialogs=False)
        async with visitor.client.session(profile=profile) as session:
            careful = Visitor(visitor.site, visitor.client, session, visitor.mode)
            await careful.show("<button onclick='document.title = confirm(`Sure?`)'>Ask</button>")
            answer = await careful.click("Ask")
            assert answer.page.title == "false"
            assert answer.incidents == (Incident("dialog", "confirm: Sure? (answered Cancel)"),)

    browser.browse(scenario)


def test_a_dialog_before_a_navigation_is_reported(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/bought"] = "<title>Bought</title><script>alert('Thanks')</script>"
        await visitor.show(
            "<script>alert('Welcome')</script><form action='/bought'"
            " onsubmit='return confirm(`Buy?`)'><button>Buy</button></form>"
        )
        answer = await visitor.click("Buy")
        assert answer.page.title == "Bought"
        told = [
            Incident("dialog", "confirm: Buy? (answered OK)"),
            Incident("dialog", "alert: Thanks"),
        ]
        assert answer.incidents == tuple(told)

    browser.browse(scenario)


def test_a_page_that_asks_whether_to_leave_it_is_left(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/away"] = "<title>Away</title>"
        leaving = "<script>onbeforeunload = (e) => e.preventDefault()</script>"
        await visitor.show(f"{leaving}<input aria-label=Draft><a href='/away'>Leave</a>")
        await visitor.fill("Draft", "unsaved")
        answer = await visitor.click("Leave")
        assert answer.page.title == "Away"
        assert kinds(answer) == ["dialog"]
        await visitor.show(f"{leaving}<input aria-label=Draft>")
        await visitor.fill("Draft", "unsaved")
        answer = await visitor.visit("/away")
        assert answer.page.title == "Away"
        await visitor.step(Back())
        await visitor.fill("Draft", "unsaved")
        answer = await visitor.step(Back())
        assert answer.page.title == "Away"

    browser.browse(scenario)


def test_downloads_are_refused_and_told(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        async def attachment(_: web.BaseRequest) -> web.StreamResponse:
            headers = {"Content-Disposition": "attachment; filename=a.bin"}
            return web.Response(body=b"\0" * 1000, headers=headers)

        visitor.site.pages["/file"] = attachment
        await visitor.show("<title>Files</title><a href='/file'>Take</a>")
        answer = await visitor.click("Take")
        assert answer.page.title == "Files"
        assert answer.incidents == (Incident("download", f"refused: {visitor.site.url}/file"),)
        problem = await visitor.refused(VisitPage(f"{visitor.site.url}/file"))
        assert problem.type == "navigation_failed"
        assert "download" in problem.message
        assert (await visitor.step()).page.title == "Files"

    browser.browse(scenario)


WRONG = (
    "<button id=open onclick='document.body.append(Object.assign(document.createElement(`div`),"
    " {style: `position: fixed; inset: 0; background: white`, textContent: `Cookies?`}))'>Cover"
    "</button><p style='cursor: pointer' onclick='1'>Words</p><input aria-label=Fixed readonly>"
    "<input aria-label=Off disabled><input type=date aria-label=Day><input type=file aria-label=Up>"
    "<select aria-label=Size><option>Small</select><input type=checkbox aria-label=Tick>"
)


def test_a_wrong_use_says_what_is_wrong(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(WRONG)
        found = await visitor.elements()
        numbers = {name: element.id for name, element in found.items()}
        points = {name: middle(element) for name, element in found.items()}
        for command, says in (
            (FillId(numbers["Words"], "x"), "not a text field"),
            (FillCoords(*points["Words"], "x"), "not a text field"),
            (FillId(numbers["Fixed"], "x"), "read-only"),
            (FillId(numbers["Off"], "x"), "disabled"),
            (FillCoords(*points["Off"], "x"), "disabled"),
            (FillId(numbers["Day"], "tomorrow"), "YYYY-MM-DD"),
            (FillCoords(*points["Day"], "tomorrow"), "YYYY-MM-DD"),
            (FillId(numbers["Up"], "/etc/passwd"), "not a text field"),
            (FillId(numbers["Tick"], "x"), "not a text field"),
            (FillCoords(*points["Size"], "Small"), "drop-down list"),
            (FillId(numbers["Size"], "Large"), "Small"),
            (SelectOption(numbers["Size"], "Large"), "Small"),
            (SelectOption(numbers["Size"]), "give an option"),
            (Keypress(("Hyper",)), "unknown key"),
            (Keypress(("Control", "Banana")), "unknown key"),
            (ClickCoords(5000, 20), "outside"),
            (FillCoords(20, 769, "x"), "outside"),
            (HoverCoords(1281, 20), "outside"),
            (HoverAndScrollCoords(20, 5000), "outside"),
        ):
            problem = await visitor.refused(command)
            assert problem.type == "command_failed"
            assert says in problem.message, command

    browser.browse(scenario)


def test_elements_that_cannot_be_reached_are_unknown(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(WRONG)
        found = await visitor.elements()
        for command in (ClickId(999), FillId(999, "x"), ScrollId(999, "down"), SelectOption(999)):
            problem = await visitor.refused(command)
            assert problem.type == "unknown_element"
            assert "999" in problem.message
        problem = await visitor.refused(SelectOption(found["Cover"].id))
        assert problem.type == "unknown_element"
        assert "<button>" in problem.message
        await visitor.step(ClickId(found["Cover"].id))
        problem = await visitor.refused(ClickId(found["Cover"].id))
        assert problem.type == "unknown_element"
        assert "covered" in problem.message
        with pytest.raises(UnknownElementError, match="covered"):
            await visitor.session.hover_id(found["Cover"].id)

    browser.browse(scenario)


def test_clients_may_send_ids_and_numbers_as_text(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(f"<button onclick='document.title = `pushed`'>Push</button>{TALL}")
        push = await visitor.element("Push")
        lease = msgspec.to_builtins(visitor.session.lease)
        bodies: list[dict[str, object]] = [
            {"click_id": {"id": str(push.id)}},
            {"click_coords": {"x": "20", "y": "20"}},
            {"page_down": {"amount": "300", "full_page": False}},
            {"page_up": None},
        ]
        async with aiohttp.ClientSession(browser.url) as http:
            for body in bodies:
                async with http.post("/execute", json={**lease, **body}) as told:
                    assert (await told.json())["status"] == "success"
            wrong_bodies: list[dict[str, object]] = [
                {"click_id": {"id": "first"}},
                {"click_id": {}},
                {"clik_id": {"id": 1}},
                {"click_id": {"id": 1}, "back": {}},
                {},
            ]
            for wrong in wrong_bodies:
                async with http.post("/execute", json={**lease, **wrong}) as told:
                    assert told.status == 400
                    assert (await told.json())["error"]["type"] == "bad_request"
        answer = await visitor.step()
        assert (answer.page.title, answer.page.scroll_y) == ("pushed", 100)

    browser.browse(scenario)
