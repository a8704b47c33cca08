"""Who may ask, with a token and without."""

import pytest
from multidict import CIMultiDict

from rollgym.servers.access import BEARER, ServerAccess, TokenHeader
from rollgym.servers.exchange import RefusedRequestError
from tests.cases import for_each

OWN = {"Host": "127.0.0.1:7000"}
API_KEY = TokenHeader("BROWSER_TOKEN", "x-api-key")


def check(access: ServerAccess, headers: dict[str, str], peer: str | None = "127.0.0.1") -> None:
    access.check(CIMultiDict(headers), peer)


@for_each(
    ("sent_as", "headers"),
    [
        (API_KEY, {"X-API-Key": "secret"}),
        (BEARER, {"authorization": "Bearer secret"}),
        (BEARER, {"Authorization": "bearer secret"}),
    ],
)
def test_requests_with_the_token_are_allowed_from_anywhere(
    sent_as: TokenHeader, headers: dict[str, str]
) -> None:
    access = ServerAccess("0.0.0.0", "secret", sent_as)
    check(access, {**headers, "Origin": "https://x"}, "8.8.8.8")


@for_each(
    ("sent_as", "headers", "message"),
    [
        (API_KEY, {}, "the token is missing: send BROWSER_TOKEN as x-api-key"),
        (API_KEY, {"x-api-key": ""}, "the token is missing"),
        (API_KEY, {"x-api-key": "secre"}, "the token is wrong"),
        (API_KEY, {"x-api-key": "secret "}, "the token is wrong"),
        (API_KEY, {"x-api-key": "s\u00e9cret\udcff"}, "the token is wrong"),
        (BEARER, {}, "is missing: send `Authorization: Bearer TOKEN` with server_token"),
        (BEARER, {"Authorization": "Bearer "}, "the token is missing"),
        (BEARER, {"Authorization": "secret"}, "the token is wrong"),
        (BEARER, {"Authorization": "Basic secret"}, "the token is wrong"),
    ],
)
def test_requests_without_the_right_token_are_refused(
    sent_as: TokenHeader, headers: dict[str, str], message: str
) -> None:
    with pytest.raises(RefusedRequestError, match=message) as refused:
        check(ServerAccess("127.0.0.1", "secret", sent_as), headers)
    assert refused.value.status == 401


@for_each("host", ["127.0.0.1:7000", "localhost", "LocalHost:80", "[::1]:7000", "192.168.1.5:7000"])
def test_without_a_token_programs_on_this_machine_may(host: str) -> None:
    check(ServerAccess("127.0.0.1", None), {"Host": host})
    check(ServerAccess("::1", None), {"Host": host, "Authorization": "Bearer any"}, "::1")


@for_each(
    ("headers", "peer"),
    [
        (OWN, "192.168.1.5"),
        (OWN, None),
        ({**OWN, "Origin": "https://attacker.example"}, "127.0.0.1"),
        ({**OWN, "Origin": "null"}, "127.0.0.1"),
        ({**OWN, "Sec-Fetch-Site": "cross-site"}, "127.0.0.1"),
        ({"Host": "attacker.example:7000"}, "127.0.0.1"),
        ({"Host": "127.0.0.1.attacker.example"}, "127.0.0.1"),
        ({"Host": "[::1"}, "127.0.0.1"),
        ({}, "127.0.0.1"),
    ],
)
def test_without_a_token_other_machines_and_web_pages_are_refused(
    headers: dict[str, str], peer: str | None
) -> None:
    with pytest.raises(RefusedRequestError) as refused:
        check(ServerAccess("127.0.0.1", None), headers, peer)
    assert refused.value.status == 403
