"""Marks in a real browser: what can be used has one, and what cannot be used has none."""

from tests.e2e.browsing import Server, Visitor

PAGE = """<style>.row { cursor: pointer } body { margin: 20px } p, ul, ol { margin: 4px }</style>
<p id=heard>Heard paragraph</p><p>Plain paragraph</p><p id=property>Property paragraph</p>
<a id=link>Link for scripts</a> <a name=place>A place</a>
<div class=row><span id=reply>Reply</span> <span id=forward>Forward</span></div>
<ul id=menu><li>Open</li><li>Save</li><li>Print</li></ul>
<ul role=menu tabindex=0><li role=menuitem>Cut</li><li role=menuitem>Paste</li></ul>
<div id=app><button>Inner one</button><button>Inner two</button><p>Inside the app</p></div>
<svg width=300 height=100><circle id=round cx=40 cy=40 r=30 fill=red />
  <rect x=100 width=60 height=60 fill=blue /></svg>
<svg id=chart width=300 height=100><rect width=40 height=80 fill=green />
  <rect x=60 width=40 height=50 fill=teal /></svg>
<svg width=200 height=50><rect class=row width=40 height=40 fill=gold /><rect x=60 width=40
  height=40 fill=grey /></svg>
<canvas id=board width=200 height=80></canvas><canvas width=200 height=80></canvas>
<p ondblclick="document.title = 'twice'">Written paragraph</p>
<ul onmousedown="document.title = event.target.textContent">
  <li>Left</li><li>Middle</li><li>Right</li></ul>
<p draggable=true>Card</p><p draggable=false>Fixed card</p><p id=target>Target</p>
<ol id=pair><li class=row>First</li><li class=row>Second</li></ol>
<table><tr class=row onclick="1"><td>Cell</td><td>Other cell</td></tr></table>
<div style="width: 200px; cursor: move"><b>Title bar</b></div>
<div style="width: 20px; height: 20px; cursor: se-resize"></div>
<script>
for (const id of ['heard', 'link', 'reply', 'forward', 'menu', 'app', 'round', 'chart', 'board',
  'pair']) {
  document.getElementById(id).addEventListener('click', (event) => {
    document.title = `${id} ${event.target.textContent || event.target.getAttribute('fill') || ''}`;
  });
}
document.getElementById('target').addEventListener('drop', () => {});
document.getElementById('property').onclick = () => { document.title = 'property' };
document.addEventListener('click', () => {});
</script>"""


def test_what_listens_for_clicks_is_marked_one_by_one(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        answer = await visitor.show(PAGE)
        found = [(each.tag, each.name) for each in answer.elements or ()]
        assert found == [
            ("p", "Heard paragraph"),
            ("p", "Property paragraph"),
            ("a", "Link for scripts"),
            ("span", "Reply"),
            ("span", "Forward"),
            ("li", "Open"),
            ("li", "Save"),
            ("li", "Print"),
            ("li", "Cut"),
            ("li", "Paste"),
            ("button", "Inner one"),
            ("button", "Inner two"),
            ("circle", "red circle"),
            ("rect", "green rect"),
            ("rect", "teal rect"),
            ("rect", "gold rect"),
            ("canvas", ""),
            ("p", "Written paragraph"),
            ("li", "Left"),
            ("li", "Middle"),
            ("li", "Right"),
            ("p", "Card"),
            ("p", "Target"),
            ("li", "First"),
            ("li", "Second"),
            ("tr", "Cell Other cell"),
            ("div", "Title bar"),
            ("div", ""),
        ]
        for name, title in {
            "Forward": "forward Forward",
            "Save": "menu Save",
            "red circle": "round red",
            "teal rect": "chart teal",
            "Right": "Right",
        }.items():
            assert (await visitor.click(name)).page.title == title

    browser.browse(scenario, "set_of_marks")
