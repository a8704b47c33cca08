import pytest

from webgym.sites.site import Markup, Template, flag, options, rendered

HOSTILE = """<script>alert('x')</script>" onload="y" {name} &amp;"""


def test_values_of_a_template_are_escaped() -> None:
    page = Template('<p title="{title}">{text}</p>')(title=HOSTILE, text=HOSTILE)
    assert "<script" not in page
    assert '" onload' not in page
    assert page.count("{name}") == 2
    assert page.count("&amp;amp;") == 2


def test_markup_goes_in_as_it_is_and_a_sequence_part_by_part() -> None:
    item = Template("<li>{text}</li>")
    assert Template("<ul>{items}</ul>")(items=[item(text="<"), "&", 3, None, False]) == (
        "<ul><li>&lt;</li>&amp;3</ul>"
    )


def test_nothing_is_nothing_and_numbers_are_themselves() -> None:
    assert rendered(None) == ""
    assert rendered(0) == "0"
    assert rendered(4.5) == "4.5"


def test_a_flag_is_there_or_not() -> None:
    assert Template("<input{checked}>")(checked=flag("checked", 1)) == "<input checked>"
    assert Template("<input{checked}>")(checked=flag("checked", "")) == "<input>"


def test_the_chosen_option_is_selected_and_all_are_escaped() -> None:
    shown = options([("a", "A & B"), ('"', "quote")], '"')
    assert isinstance(shown, Markup)
    assert shown == (
        '<option value="a">A &amp; B</option><option value="&quot;" selected>quote</option>'
    )


def test_a_template_wants_all_it_names() -> None:
    with pytest.raises(KeyError, match="text"):
        Template("{text}")()
