from rollgym.monitor import printable_line


def test_foreign_text_becomes_one_printable_line() -> None:
    line = printable_line("\x1b]0;owned\x07 \x9b31m red \u202egnitsil")
    assert all(char.isprintable() for char in line)
    assert "red" in line
    assert printable_line("first\n\tsecond\r\nthird") == "first second third"
    line = printable_line("x" * 100_000, limit=40)
    assert len(line) == 40
    assert line.endswith("…")
