"""What people do in pages besides clicking and typing, in both modes."""

from tests.e2e.browsing import Server, Visitor, middle
from webgym.browser.contract.commands import (
    ClickCoords,
    ClickId,
    CloseTab,
    Command,
    DragCoords,
    DragId,
    Keypress,
    MouseButton,
    SelectOption,
    SelectOptionCoords,
    SlideCoords,
    SlideId,
    SwitchTab,
    UploadCoords,
    UploadFile,
    UploadId,
)

BUTTONS = """<title>-</title><script>const said = [], say = (word) => {
  said.push(word); document.title = said.join(" "); };
</script><button ondblclick="say('double')" onclick="say('click' + event.detail)"
  oncontextmenu="say('menu'); return false" onauxclick="say('aux' + event.button)">Press</button>"""


async def clicked(visitor: Visitor, name: str, button: MouseButton, clicks: int) -> str:
    element = await visitor.element(name)
    command: Command = ClickId(element.id, button, clicks)
    if visitor.mode == "coordinates":
        command = ClickCoords(*middle(element), button, clicks)
    return (await visitor.step(command)).page.title


def test_double_clicks_and_other_buttons_reach_the_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(BUTTONS)
        assert await clicked(visitor, "Press", "left", 2) == "click1 click2 double"
        await visitor.show(BUTTONS)
        assert await clicked(visitor, "Press", "right", 1) == "menu aux2"
        await visitor.show(BUTTONS)
        assert await clicked(visitor, "Press", "middle", 1) == "aux1"

    browser.browse_in_both_modes(scenario)


DRAGGING = """<title>-</title><style>body { margin: 0 } button, a { position: absolute; top: 100px;
  width: 80px; height: 40px }</style>
<button id=moved style="left: 100px">Moved</button>
<a href="/x" id=native draggable=true style="left: 300px">Native</a>
<button id=goal style="left: 600px; width: 150px; height: 150px">Goal</button>
<script>
  let grip = null;
  moved.onmousedown = (event) => { grip = [event.clientX - moved.offsetLeft,
    event.clientY - moved.offsetTop]; event.preventDefault(); };
  onmousemove = (event) => { if (!grip) return; moved.style.left = event.clientX - grip[0] + "px";
    moved.style.top = event.clientY - grip[1] + "px"; };
  onmouseup = () => { if (grip) document.title = "moved " + moved.offsetLeft + " " +
    moved.offsetTop; grip = null; };
  native.ondragstart = (event) => event.dataTransfer.setData("text/plain", "cargo");
  native.ondragend = () => { document.title += " ended"; };
  goal.ondragover = (event) => event.preventDefault();
  goal.ondrop = (event) => { event.preventDefault();
    document.title = "dropped " + event.dataTransfer.getData("text/plain"); };
</script>"""


def test_things_are_dragged_by_mouse_events_and_natively(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        by_marks = visitor.mode == "set_of_marks"
        await visitor.show(DRAGGING)
        moved, native, goal = [await visitor.element(name) for name in ("Moved", "Native", "Goal")]
        (x, y), end = middle(moved), middle(goal)
        command: Command = DragCoords(x, y, x + 60, y + 200)
        if by_marks:
            command = DragId(moved.id, dx=60, dy=200)
        assert (await visitor.step(command)).page.title == "moved 160 300"
        command = DragCoords(*middle(native), *end)
        if by_marks:
            command = DragId(native.id, goal.id)
        assert (await visitor.step(command)).page.title == "dropped cargo ended"
        command = DragCoords(5000, 0, 1, 1)
        if by_marks:
            command = DragId(moved.id, dx=5000)
        assert "outside of the viewport" in (await visitor.refused(command)).message

    browser.browse_in_both_modes(scenario)


CHOOSING = """<title>-</title><select aria-label=Size onchange="document.title = value">
<option value=s>Small<option value=l>Large</select><button>Button</button>
<input type=range aria-label=Volume min=0 max=50 step=5 value=10 onchange="document.title = value">
<div role=slider tabindex=0 aria-label=Heat aria-valuemin=-5 aria-valuemax=30 aria-valuenow=20
  style="width: 200px; height: 20px; background: red"></div>
<script>
  const heat = document.querySelector("[role=slider]");
  heat.onkeydown = ({ key }) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!way) return;
    const now = Number(heat.ariaValueNow) + way;
    if (now >= -5 && now <= 30) heat.ariaValueNow = document.title = String(now);
  };
</script>"""


def test_lists_and_sliders_get_a_value(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        by_marks = visitor.mode == "set_of_marks"
        await visitor.show(CHOOSING)
        there = await visitor.elements()

        def chosen(name: str, option: str) -> Command:
            if by_marks:
                return SelectOption(there[name].id, option)
            return SelectOptionCoords(*middle(there[name]), option)

        def slid(name: str, value: float) -> Command:
            if by_marks:
                return SlideId(there[name].id, value)
            return SlideCoords(*middle(there[name]), value)

        assert (await visitor.step(chosen("Size", "large"))).page.title == "l"
        assert "it has Small, Large" in (await visitor.refused(chosen("Size", "Tiny"))).message
        assert "neither a list" in (await visitor.refused(chosen("Button", "x"))).message
        answer = await visitor.step(slid("Volume", 35))
        assert (answer.page.title, answer.result["value"]) == ("35", 35)
        assert "from 0 to 50" in (await visitor.refused(slid("Volume", 51))).message
        assert (await visitor.step(slid("Heat", -2))).page.title == "-2"
        assert "from -5 to 30" in (await visitor.refused(slid("Heat", 31))).message
        assert "cannot be moved to 0.5" in (await visitor.refused(slid("Heat", 0.5))).message
        assert "not a slider" in (await visitor.refused(slid("Button", 1))).message

    browser.browse_in_both_modes(scenario)


UPLOADING = """<title>-</title><script>async function tell(field) {
  const parts = [];
  for (const file of field.files) parts.push(file.name + "=" + (await file.text()));
  document.title = parts.join(" ");
}</script>
<input type=file aria-label=Report onchange="tell(this)">
<input type=file multiple id=unseen style="display: none" onchange="tell(this)">
<button onclick="unseen.click()">Attach</button><button>Nothing</button>"""


def test_files_are_given_to_the_dialogs_of_pages(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(UPLOADING)
        there = await visitor.elements()
        one, two = UploadFile("cv.txt", b"hired"), UploadFile("more.txt", b"text")

        def given(name: str, *files: UploadFile) -> Command:
            if visitor.mode == "set_of_marks":
                return UploadId(there[name].id, files)
            return UploadCoords(*middle(there[name]), files)

        assert (await visitor.step(given("Report", one))).page.title == "cv.txt=hired"
        assert "takes one file, not 2" in (await visitor.refused(given("Report", one, two))).message
        answer = await visitor.step(given("Attach", one, two))
        assert answer.page.title == "cv.txt=hired more.txt=text"
        assert "no file dialog" in (await visitor.refused(given("Nothing", one))).message

    browser.browse_in_both_modes(scenario)


def test_tabs_are_listed_switched_and_closed(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        for name in ("Two", "Three"):
            visitor.site.pages[f"/{name}"] = f"<title>{name}</title>"
        await visitor.show(
            "<title>One</title><a href=/Two target=_blank>Two</a><a href=/Three target=_blank>Three"
        )
        await visitor.click("Two")
        answer = await visitor.step(SwitchTab(1))
        assert answer.page.title == "One"
        answer = await visitor.click("Three")
        assert [(tab.number, tab.title, tab.current) for tab in answer.page.tab_list] == [
            (1, "One", False),
            (2, "Two", False),
            (3, "Three", True),
        ]
        assert answer.page.tab_list[1].url == f"{visitor.site.url}/Two"
        assert (await visitor.step(CloseTab(2))).page.title == "Three"
        missing = await visitor.refused(SwitchTab(2))
        assert missing.message == "there is no tab 2: the tabs are 1, 3"
        answer = await visitor.step(CloseTab())
        assert (answer.page.title, answer.page.tabs, answer.page.tab_list) == ("One", 1, ())
        answer = await visitor.step(CloseTab())
        assert (answer.page.url, answer.page.tabs) == ("about:blank", 1)

    browser.browse(scenario)


def test_chords_edit_text_and_sessions_have_their_own_clipboard(browser: Server) -> None:
    page = (
        "<title>-</title><input aria-label=One value=secret><input aria-label=Two>"
        "<script>oninput = () => { document.title = document.querySelectorAll('input')[1].value }"
        "</script>"
    )

    async def scenario(visitor: Visitor) -> None:
        await visitor.show(page)
        await visitor.click("One")
        await visitor.step(Keypress(("Control", "a")))
        await visitor.step(Keypress(("Control", "c")))
        await visitor.click("Two")
        assert (await visitor.step(Keypress(("Control", "v")))).page.title == "secret"
        assert (await visitor.step(Keypress(("Control+z",)))).page.title == ""
        async with visitor.another() as other:
            await other.show(page)
            await other.click("Two")
            await other.step(Keypress(("Control", "v")))
            assert (await other.element("Two")).value in (None, "")
        await visitor.click("One")
        await visitor.step(Keypress(("Control", "a")))
        await visitor.step(Keypress(("Control", "x")))
        await visitor.click("Two")
        assert (await visitor.step(Keypress(("Shift", "Insert")))).page.title == "secret"
        assert (await visitor.element("One")).value in (None, "")

    browser.browse(scenario)
