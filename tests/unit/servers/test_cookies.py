"""Cookies as headers, and the jar that keeps them."""

from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers import CookieJar
from rollgym.servers.exchange import (
    format_cookies,
    format_set_cookie,
    parse_cookies,
    parse_set_cookies,
)
from tests.cases import for_each

names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
values = st.text(st.characters(codec="utf-8", exclude_characters=";", categories=["L", "N", "P"]))


@given(st.dictionaries(names, values))
def test_what_is_formatted_can_be_parsed(cookies: dict[str, str]) -> None:
    assert parse_cookies(format_cookies(cookies)) == cookies


@given(st.dictionaries(names, values))
def test_what_is_set_can_be_parsed(cookies: dict[str, str]) -> None:
    headers = [format_set_cookie(name, value) for name, value in cookies.items()]
    assert parse_set_cookies(headers) == cookies


@given(st.text(), st.text())
def test_any_header_can_be_parsed(pair: str, attribute: str) -> None:
    assert isinstance(parse_cookies(pair), dict)
    assert isinstance(parse_set_cookies([f"{pair}; Max-Age={attribute}; Expires={pair}"]), dict)


@for_each(
    ("header", "cookies"),
    [
        ("", {}),
        (";; ;", {}),
        ("novalue", {}),
        ("=nothing", {}),
        ("a=1;b=2", {"a": "1", "b": "2"}),
        ("  a=1 ;  b=", {"a": "1", "b": ""}),
        ("a=b=c==", {"a": "b=c=="}),
        ('a="1 2"', {"a": '"1 2"'}),
        ("a=1; a=2", {"a": "2"}),
    ],
)
def test_a_cookie_header_is_read_as_it_is_written(header: str, cookies: dict[str, str]) -> None:
    assert parse_cookies(header) == cookies


@for_each(
    "attributes",
    [
        "Max-Age=0",
        "max-age=-1",
        "Path=/; MAX-AGE = 00; HttpOnly",
        "Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "expires=Thu, 01-Jan-1970 00:00:00 GMT; HttpOnly",
        "Max-Age=soon; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)
def test_a_cookie_whose_time_is_over_is_dropped(attributes: str) -> None:
    assert parse_set_cookies([f"a=b; {attributes}"]) == {"a": ""}


@for_each(
    "attributes",
    [
        "",
        "Path=/; HttpOnly; SameSite=lax; Secure",
        "Max-Age=1",
        "Max-Age=" + "9" * 5000,
        "Max-Age=soon",
        "Max-Age=",
        "Expires=Thu, 01 Jan 2970 00:00:00 GMT",
        "Expires=some day",
        "Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)
def test_any_other_cookie_is_kept(attributes: str) -> None:
    assert parse_set_cookies([f"a=b; {attributes}"]) == {"a": "b"}


def test_the_last_word_on_a_cookie_counts() -> None:
    assert parse_set_cookies(["a=1", "b=1", "a=2; Path=/", "b=x; Max-Age=0"]) == {"a": "2", "b": ""}


def test_a_jar_keeps_and_drops() -> None:
    jar = CookieJar({"a": "1", "b": "2"})
    jar.keep({"b": "", "c": "3", "nowhere": ""})
    assert jar.cookies == {"a": "1", "c": "3"}


def test_a_jar_does_not_change_what_it_was_made_of() -> None:
    given = {"a": "1"}
    CookieJar(given).keep({"a": "2"})
    assert given == {"a": "1"}
