import msgspec
import pytest

from tests.unit.webgym.context.rounds import drop_down, element, observation, past_round, task
from webgym.actions.space import (
    Action,
    Click,
    GiveAnswer,
    GoBack,
    Hover,
    Mark,
    PressKeys,
    Scroll,
    Select,
    Type,
    Wait,
)
from webgym.context.compact import COMPACT
from webgym.context.formats import ParsedReply
from webgym.context.page_view import Round
from webgym.context.settings import ContextSettings

SETTINGS = ContextSettings(
    interaction_mode="set_of_marks", prompt_version="compact", observation="text"
)
FIELD = element(30, "", tag="input", role="textbox", text="", value="", editable=True, type="text")
PAGE = observation(
    elements=(
        element(1, "OK"),
        element(2, "ok"),
        element(3, "OK"),
        element(4, 'Say "hi"'),
        drop_down(),
        FIELD,
    ),
    tree='RootWebArea "Lamps"\n  text "Two \\"blue\\" lamps"\n  [1] button "OK"\n  text "OK"\n',
)


def read(text: str) -> ParsedReply:
    return COMPACT.read_reply(text, SETTINGS, (), PAGE)


def prompt(
    name: str = "Buy a lamp.", past: tuple[Round, ...] = (), **others: object
) -> list[dict[str, object]]:
    current = msgspec.structs.replace(PAGE, **others)
    return list(COMPACT.write_chat(SETTINGS, task(name), past, current).messages)


def test_each_element_stands_once_with_a_label_of_its_own() -> None:
    assert str(prompt()[-1]["content"]).splitlines() == [
        "Page:",
        'Text: Two "blue" lamps',
        'button "OK"',
        'button "ok"',
        'button "OK 2"',
        'button "Say \\"hi\\""',
        'list "Colour" = "Blue" of "Red", "Blue"',
        'textbox "textbox"',
        "Task: Buy a lamp.",
    ]


@pytest.mark.parametrize(
    ("line", "action", "tolerances"),
    [
        ('click "OK 2"', Click(Mark(3)), ()),
        ('click "Say \\"hi\\""', Click(Mark(4)), ()),
        ('hover "Colour"', Hover(Mark(20)), ()),
        ('type "a \\"b\\"" into "textbox"', Type(Mark(30), 'a "b"', press_enter=False), ()),
        ('select "Red" in "Colour"', Select(Mark(20), "Red"), ()),
        ('press "Control+a"', PressKeys(("Control", "a")), ()),
        ('press "+"', PressKeys(("+",)), ()),
        ("scroll down", Scroll("down"), ()),
        ("scroll up", Scroll("up"), ()),
        ("back", GoBack(), ()),
        ("wait", Wait(2.0), ()),
        ('answer "24 EUR"', GiveAnswer("24 EUR"), ()),
        ("<think>hm</think>back", GoBack(), ()),
        ('Click "OK"', Click(Mark(1)), ("spelling",)),
        ("BACK", GoBack(), ("spelling",)),
        ('click on the "OK" button', Click(Mark(1)), ("extra_words",)),
        ('type "x" into the text field "textbox"', Type(Mark(30), "x", press_enter=False),
         ("extra_words",)),
        ('type "x" in "textbox"', Type(Mark(30), "x", press_enter=False), ("spelling",)),
        ('Action: click "OK".', Click(Mark(1)), ("ornaments",)),
        ('`click "OK"`', Click(Mark(1)), ("ornaments",)),
        ("click OK 2", Click(Mark(3)), ("no_quotes",)),
        ("answer 24 EUR", GiveAnswer("24 EUR"), ("no_quotes",)),
        ('click "colour"', Click(Mark(20)), ("label_case",)),
        ('click "OK"\nThat is all.', Click(Mark(1)), ("trailing_text",)),
        ('click "OK"\nclick "OK"', Click(Mark(1)), ("trailing_text",)),
    ],
)  # fmt: skip
def test_a_line_is_read_as_its_action(
    line: str, action: Action, tolerances: tuple[str, ...]
) -> None:
    reply = read(line)
    assert (reply.action, reply.failure) == (action, None)
    assert reply.tolerances == tolerances
    again = read(str(reply.fields["action"]))
    assert (again.action, again.tolerances) == (action, ())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "the reply was empty: end it with one line"),
        ('click "Ok"', 'the page has no "Ok"; it has "OK", "ok", "OK 2", "Say'),
        ('click "Lemon"', 'the page has no "Lemon"'),
        ("click Lemon", 'click "LABEL"'),
        ('click not "OK"', 'click "LABEL"'),
        ('click "OK" "ok"', 'click "LABEL"'),
        ('type "x"', 'type "TEXT" into "LABEL"'),
        ('type x into "textbox"', 'type "TEXT" into "LABEL"'),
        ("scroll left", "scroll up, scroll down"),
        ('click "OK\\x"', "wrong escape"),
        ('press ""', "`press` needs keys"),
        ('click "OK"\nclick "ok"', "several lines"),
        ("I click the button.", "this is not an action"),
        ("<think>", "the reply ends inside <think>"),
        (f'answer "{"x" * 20_000}"', "write at most"),
    ],
)
def test_any_other_reply_is_rejected_with_what_would_be_accepted(line: str, reason: str) -> None:
    reply = read(line)
    assert reply.action is None
    assert reason in (reply.failure or "")


def test_a_worked_turn_that_is_copied_is_never_an_action() -> None:
    copied = [str(each["content"]) for each in prompt() if each["role"] == "assistant"]
    assert len(copied) >= 4
    words = " ".join(copied)
    on_page = msgspec.structs.replace(
        PAGE, elements=tuple(element(n, word) for n, word in enumerate(words.split('"'), 1))
    )
    for current in (PAGE, on_page):
        for each in COMPACT.write_chat(SETTINGS, task(words), (), current).messages:
            if each["role"] == "assistant":
                reply = COMPACT.read_reply(str(each["content"]), SETTINGS, (), current)
                assert reply.action is None, each


def test_what_was_done_and_what_went_wrong_is_shown() -> None:
    done = past_round(1, fields={"action": 'click "OK"'})
    failed = past_round(2, fields={"action": 'click "ok"'}, problem="it is covered by <div>")
    text = str(prompt(past=(done, failed), feedback="not carried out")[-1]["content"])
    assert text.endswith('Task: Buy a lamp.\nDone: click "OK"\nProblem: it is covered by <\\div>')


def test_the_prompt_before_the_page_is_short() -> None:
    before = "\n".join(str(each["content"]) for each in prompt()[:-1])
    assert len(before) / 3.2 < 300


def test_the_grammar_names_what_is_on_the_page() -> None:
    rules = dict(
        line.split(" ::= ") for line in COMPACT.grammar(SETTINGS, task(), PAGE).splitlines()
    )
    assert rules["label"].startswith(r'"\"OK\"" | "\"ok\"" | "\"OK 2\"" | "\"Say \\\"hi\\\"\""')
    assert rules["field"] == r'"\"textbox\""'
    assert rules["select"] == r'"select " ("\"Red\"" | "\"Blue\"") " in \"Colour\""'
    bare = COMPACT.grammar(SETTINGS, task(), observation(elements=()))
    assert "label" not in bare
