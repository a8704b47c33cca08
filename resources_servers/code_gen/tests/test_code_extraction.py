from collections.abc import Iterable

from resources_servers.code_gen.task import extract_program

PYTHON = "```python\nprint(1)\n```"


def test_the_program_is_what_the_fences_enclose() -> None:
    cases: Iterable[tuple[str, str]] = [
        (f"Here it is:\n{PYTHON}\nDone.", "print(1)\n"),
        ("```py\nprint(1)\n```", "print(1)\n"),
        ("```Python3\nprint(1)\n```", "print(1)\n"),
        ("```python title=x.py\nprint(1)\n```", "print(1)\n"),
        ("```python\r\nprint(1)\r\n```\r\n", "print(1)\n"),
        ("~~~python\nprint(1)\n~~~", "print(1)\n"),
        ("1. a list\n\n   ```python\n   if 1:\n       pass\n   ```", "if 1:\n    pass\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("```python\ns = 'a\x0cb'\n```", "s = 'a\x0cb'\n"),
        ("```python\n```", "\n"),
    ]
    for answer, program in cases:
        assert extract_program(answer) == program


def test_the_last_python_block_wins() -> None:
    answer = f"{PYTHON}\nBetter:\n```python\nprint(2)\n```\nOutput:\n```\n2\n```"
    assert extract_program(answer) == "print(2)\n"


def test_without_a_python_block_the_last_block_wins() -> None:
    assert extract_program("```\nprint(1)\n```\n```\nprint(2)\n```") == "print(2)\n"


def test_an_answer_without_a_closed_block_has_no_program() -> None:
    cases: Iterable[str] = ["", "print(1)", "```print(1)```", "```python\nprint(1)", "`print(1)`"]
    for answer in cases:
        assert extract_program(answer) is None


def test_a_program_inside_the_reasoning_does_not_count() -> None:
    thought = f"<think>\n{PYTHON}\n</think>"
    assert extract_program(f"{thought}I do not know.") is None
    assert extract_program(f"{thought}\n```python\nprint(2)\n```\n{thought}") == "print(2)\n"
    assert extract_program(f"So:\n{PYTHON}\n<think>\n```python\nprint(2)\n```") == "print(1)\n"


def test_a_block_that_was_cut_off_does_not_hide_the_one_before() -> None:
    assert extract_program(f"{PYTHON}\nOr rather:\n```python\nprint(") == "print(1)\n"
