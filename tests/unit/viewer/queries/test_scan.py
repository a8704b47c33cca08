import json

from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.queries.scan import Spelling

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_a_text_is_found_however_json_spells_it(
    before: str, text: str, after: str, ascii_only: bool
) -> None:
    record = json.dumps({"content": before + text + after}, ensure_ascii=ascii_only).encode()
    assert Spelling(text, in_json=True).is_in(record)


@given(TEXTS, TEXTS, TEXTS, st.booleans())
def test_a_letter_that_has_one_of_the_other_case_is_found_as_that(
    before: str, text: str, after: str, ascii_only: bool
) -> None:
    other = "".join(swapped if len(swapped := each.swapcase()) == 1 else each for each in text)
    record = json.dumps({"content": before + other + after}, ensure_ascii=ascii_only).encode()
    is_one_letter = all(
        mark.casefold() == swapped.casefold() for mark, swapped in zip(text, other, strict=True)
    )
    assert Spelling(text, in_json=True).is_in(record) or not is_one_letter


@given(TEXTS, TEXTS)
def test_other_archives_have_texts_as_they_are(before: str, text: str) -> None:
    assert Spelling(text, in_json=False).is_in(b"\x00" + (before + text).encode() + b"\xff")


def test_case_does_not_matter_and_escapes_are_no_letters() -> None:
    for text, content, found in [
        ("ERROR", "an Error came", True),
        ("GRÖSSE", "größe", False),
        ("größe", "GRößE", True),
        ("größe", "GRÖßE", True),
        ("GRÖẞE", "in der Größe", True),
        ("école 12", "L'ÉCOLE 12", True),
        ("лондон", "в ЛОНДОН", True),
        ("ЛоНдОн", "лОнДоН", True),
        ("ΛΌΓΟΣ", "ὁ λόγος", True),
        ("λόγος", "ΛΌΓΟΣ", True),
        ("лондон", "Лондан", False),
        ('é "\n"\\', 'É "\n"\\', True),
        ("日本É", "日本é", True),
        ("𐐨", "𐐀", True),
        ("u00e9", "é", False),
        ("üu00e9", "ÜÉ", False),
        ("\\u00e9É", "a backslash \\u00e9é", True),
        ("test", "a\test", False),
        ("nothing", "and\nothing", False),
        ("nothing", "a backslash \\nothing", True),
        ("line\nbreak", "Line\nbreak", True),
        ('say "this"', 'to say "THIS" now', True),
        ("50%", "50% of it", True),
        ("2024", "in 2024", True),
        ("2019", "it\u2019s", False),
        ("19s", "it\u2019s", False),
        ("2019", "it\u2019s 2019", True),
        ("u2019", "a backslash \\u2019", True),
        ("de00", "😀", False),
    ]:
        for ascii_only in (True, False):
            record = json.dumps({"content": content}, ensure_ascii=ascii_only).encode()
            assert Spelling(text, in_json=True).is_in(record) == found


def test_only_what_is_within_one_record_counts() -> None:
    data = b"abc\nabcabc\nc"
    spelling = Spelling("abc", in_json=True)
    assert sorted(set(spelling.records_in(data, [0, 4, 11], [3, 10, 12]))) == [0, 1]
    assert list(spelling.records_in(data, [0, 2], [2, 3])) == []


def test_half_of_a_surrogate_pair_is_in_no_file() -> None:
    assert not Spelling("\ud800", in_json=True).is_in(b'{"a":"\\ud800"}')


def test_of_a_piece_what_is_before_the_offset_only_tells_escapes() -> None:
    spelling = Spelling("nothing", in_json=True)
    assert not spelling.is_in(b"and\\nothing", 4)
    assert spelling.is_in(b"and nothing", 4)
    assert not spelling.is_in(b"and nothing", 5)
