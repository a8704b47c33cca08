"""What a model reads of a tool's docstring."""

from inspect import cleandoc

import pytest

from rollgym.servers import ToolDefinitionError
from rollgym.servers.tools import ToolMethod, parse_docstring


def parsed(text: str) -> tuple[str, dict[str, str]]:
    return parse_docstring(cleandoc(text))


def test_a_single_line_is_the_description() -> None:
    assert parsed("Look around.") == ("Look around.", {})


def test_paragraphs_before_the_sections_are_the_description() -> None:
    text = """Look around.

        Twice:
        once left, once right.
        """
    assert parsed(text) == ("Look around.\n\nTwice:\nonce left, once right.", {})


def test_arguments_are_described_one_by_one() -> None:
    text = """Look around.

        Args:
            city: Name of the city.
            unit (str, optional): Of the
                temperature: c or f,
                and nothing else.

            days:
                How many.
        """
    assert parsed(text)[1] == {
        "city": "Name of the city.",
        "unit": "Of the temperature: c or f, and nothing else.",
        "days": "How many.",
    }


def test_other_sections_are_not_for_the_model() -> None:
    text = """Look around.

        Args:
            city: Name of the city.

        Returns:
            note: a report.

        Raises:
            KeyError: if there is none.
        """
    assert parsed(text) == ("Look around.", {"city": "Name of the city."})


def test_text_after_the_arguments_belongs_to_the_description() -> None:
    text = """Look around.

        Args:
            city: Name of the city.

        Note: it may rain.

        Examples:
            look(city="Rome")
        """
    description, arguments = parsed(text)
    assert arguments == {"city": "Name of the city."}
    assert description.startswith("Look around.")
    assert 'Note: it may rain.\n\nExamples:\n    look(city="Rome")' in description


def test_an_argument_may_be_indented_by_two() -> None:
    text = """Look around.

        Args:
          city: Name of the city,
            in English.
        """
    assert parsed(text)[1] == {"city": "Name of the city, in English."}


def test_an_empty_docstring_has_no_description() -> None:
    assert parsed("") == ("", {})
    assert parsed("Args:\n    city: Name.")[0] == ""


def test_an_argument_that_there_is_not_is_an_error() -> None:
    async def look(self: object, city: str) -> None:
        """Look around.

        Args:
            town: Name of the city.
            street: And of the street.
        """

    with pytest.raises(
        ToolDefinitionError, match="the tool look describes street, town, but the tool has no such"
    ):
        ToolMethod("look", look)


def test_arguments_need_no_description() -> None:
    async def look(self: object, city: str) -> None:
        """Look around."""

    assert ToolMethod("look", look).schema()["parameters"]["properties"] == {
        "city": {"type": "string"}
    }
