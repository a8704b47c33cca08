"""Who may ask, with a token and without."""

import json
from typing import Any

from multidict import CIMultiDict

from tests.cases import for_each
from webgym.browser.http_server import ServerAccess

OWN = {"Host": "127.0.0.1:7000"}


def refusal(access: ServerAccess, headers: dict[str, str], peer: str | None = "127.0.0.1") -> Any:
    answer = access.rejection(CIMultiDict(headers), peer)
    return None if answer is None else (answer.status, json.loads(answer.body)["error"])


def test_requests_with_the_token_are_allowed_from_anywhere() -> None:
    access = ServerAccess("secret", "0.0.0.0")
    assert refusal(access, {"X-API-Key": "secret", "Origin": "https://x"}, "8.8.8.8") is None


@for_each(
    ("headers", "message"),
    [
        ({}, "the token is missing"),
        ({"x-api-key": ""}, "the token is missing"),
        ({"x-api-key": "secre"}, "the token is wrong"),
        ({"x-api-key": "secret "}, "the token is wrong"),
        ({"x-api-key": "s\u00e9cret\udcff"}, "the token is wrong"),
    ],
)
def test_requests_without_the_right_token_are_rejected(
    headers: dict[str, str], message: str
) -> None:
    status, error = refusal(ServerAccess("secret", "127.0.0.1"), headers)
    assert (status, error["type"]) == (401, "unauthorized")
    assert message in error["message"]


@for_each("host", ["127.0.0.1:7000", "localhost", "LocalHost:80", "[::1]:7000", "192.168.1.5:7000"])
def test_without_a_token_programs_on_this_machine_may(host: str) -> None:
    assert refusal(ServerAccess(None, "127.0.0.1"), {"Host": host}) is None
    assert refusal(ServerAccess(None, "::1"), {"Host": host}, "::1") is None


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
def test_without_a_token_other_machines_and_web_pages_are_rejected(
    headers: dict[str, str], peer: str | None
) -> None:
    status, error = refusal(ServerAccess(None, "127.0.0.1"), headers, peer)
    assert (status, error["type"]) == (403, "unauthorized")
