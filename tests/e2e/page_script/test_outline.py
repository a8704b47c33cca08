"""The tree that the script writes itself, of pages that are too large for the browser's own."""

from tests.e2e.page_script.screen import Play, Screen
from webgym.browser.page.accessibility import tree_text

HTML = {"Content-Type": "text/html"}
FORM = """<!doctype html><title>Shop</title><h2>Maps</h2>
<nav aria-label=Shelves><ul><li><a href='/sea'>Sea</a><li><a>Nowhere</a></ul></nav>
<label>Name <input required value='Ada'></label><input type=password aria-label=Secret value=x>
<label><input type=checkbox checked disabled>Gift</label>
<select aria-label=Size><option>Small<option selected>Large</select>
<img alt=Harbour><div aria-expanded=false role=button>More</div><p>Two <b>bold</b> words</p>
<div style='display: none'>gone</div><div hidden>gone</div><div aria-hidden=true>gone</div>
<div style='visibility: hidden'>gone<button style='visibility: visible'>Back</button></div>
<details><summary>Closed</summary>gone</details><div style='display: contents'>kept</div>"""
EXPECTED = """RootWebArea "Shop"
  heading "Maps" level=2
  navigation "Shelves"
    list
      listitem
        link "Sea" url=…/sea
      listitem
        text "Nowhere"
  text "Name"
  textbox "Name" value="Ada" (required)
  textbox "Secret" value="••••••••"
  checkbox "Gift" checked=true (disabled)
  combobox "Size" value="Large" expanded=false
  image "Harbour"
  button "More" expanded=false
  text "Two"
  text "bold"
  text "words"
  button "Back"
  button "Closed" expanded=false
  text "kept"
"""


def test_roles_names_values_and_states_are_written_and_what_is_hidden_is_not(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.page.route("**/*", lambda route: route.fulfill(body=FORM, headers=HTML))
        await screen.visit("http://shop.example/")
        outline = await screen.script.outline(screen.deadline)
        assert outline.whole
        text = tree_text(outline.nodes).replace("http://shop.example", "…")
        assert text.splitlines() == EXPECTED.splitlines()

    play(scene)


def test_shadow_roots_slots_and_frames_stand_in_their_places(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            "<title>Outer</title><div><template shadowrootmode=open><h1>In the shadow</h1>"
            "<slot></slot></template><button>Slotted</button></div>"
            "<iframe title=Advert srcdoc='<title>Inner</title><button>Buy'></iframe>"
        )
        outline = await screen.script.outline(screen.deadline)
        assert tree_text(outline.nodes).splitlines() == [
            'RootWebArea "Outer"',
            '  heading "In the shadow" level=1',
            '  button "Slotted"',
            '  iframe "Advert"',
            '    RootWebArea "Inner"',
            '      button "Buy"',
        ]

    play(scene)


def test_marked_elements_have_their_numbers(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<title>Page</title><button>Push</button><div onclick='x()'>Plain</div>")
        numbers = {element.name: element.id for element in await screen.elements()}
        outline = await screen.script.outline(screen.deadline)
        marked = {node.backend_id for node in outline.nodes if node.backend_id is not None}
        assert marked == set(numbers.values())

    play(scene)


def test_a_huge_page_is_written_as_far_as_there_is_room(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<title>Huge</title>" + "<p>line</p>" * 20_000)
        outline = await screen.script.outline(screen.deadline)
        assert not outline.whole
        assert len(outline.nodes) <= 4_000

    play(scene)


def test_a_deeply_nested_page_is_written_to_the_bottom(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            "<title>Deep</title>" + "<div role=group aria-label=x>" * 3_000 + "bottom"
        )
        outline = await screen.script.outline(screen.deadline)
        assert outline.whole
        assert outline.nodes[-1].name.text == "bottom"

    play(scene)
