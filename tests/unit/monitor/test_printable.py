from rollgym.monitor import printable_line


def test_escape_sequences_cannot_reach_the_terminal() -> None:
    line = printable_line("\x1b]0;owned\x07 \x9b31m red \u202egnitsil")
    assert all(char.isprintable() for char in line)
    assert "red" in line


def test_a_text_of_many_lines_becomes_one() -> None:
    assert printable_line("first\n\tsecond\r\nthird") == "first second third"


def test_a_long_text_is_cut_to_the_limit_and_says_so() -> None:
    line = printable_line("x" * 100_000, limit=40)
    assert len(line) == 40
    assert line.endswith("…")
