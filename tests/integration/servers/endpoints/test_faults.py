"""Every fault of a real endpoint ends as a typed error or as a retry that succeeds, in time."""

import asyncio
import gzip
import json
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from rollgym.records import (
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
)
from tests.cases import for_each
from tests.faulty_model import (
    OVERFLOWS,
    FaultyModel,
    Step,
    error,
    hang,
    not_http,
    reply,
    reset,
    reset_in_body,
    slow,
    truncated,
    unused_port,
)
from tests.integration.servers.endpoints.pools import BODY, KEY, failure_of, pool_of

PASSING: dict[str, Step] = {
    "429 with retry-after": reply(429, headers={"retry-after": "0.05"}),
    "429 with nothing": error(429, "Rate limit reached"),
    "429 with milliseconds": reply(429, headers={"retry-after-ms": "20"}),
    "500": error(500, "Internal error"),
    "503 without a body": reply(503),
    "503 with retry-after": reply(503, headers={"retry-after": "0.05"}),
    "408": reply(408),
    "reset": reset(),
    "reset in the body": reset_in_body(),
    "truncated body": truncated(),
    "malformed JSON": reply(200, b'{"output": ['),
    "a page in place of JSON": reply(200, b"<html>Welcome</html>"),
    "not HTTP": not_http(),
    "hang": hang(),
    "slow beyond the timeout": slow(5.0),
}

LASTING: dict[str, tuple[Step, type[RolloutError]]] = {
    "429": (error(429, "Rate limit reached"), ModelRateLimitError),
    "500": (error(500, "Internal error"), ModelUnavailableError),
    "reset": (reset(), ModelUnavailableError),
    "reset in the body": (reset_in_body(), ModelUnavailableError),
    "truncated body": (truncated(), ModelUnavailableError),
    "not HTTP": (not_http(), ModelUnavailableError),
    "hang": (hang(), ModelUnavailableError),
}

REFUSALS: dict[str, tuple[Step, type[RolloutError]]] = {
    "401": (error(401, f"Incorrect API key provided: {KEY}"), ModelAuthError),
    "403": (reply(403), ModelAuthError),
    "400": (error(400, "Unknown parameter: 'tempreature'"), ModelRequestError),
    "404": (error(404, "The model `x` does not exist"), ModelRequestError),
    "422": (reply(422, {"detail": "Unprocessable"}), ModelRequestError),
    "redirection": (reply(307, headers={"location": "/v2/responses"}), ModelRequestError),
    "exhausted quota": (error(429, "Quota", code="insufficient_quota"), ModelRateLimitError),
    **{
        f"overflow of {server}": (reply(status, body), ModelContextError)
        for server, (status, body) in OVERFLOWS.items()
    },
}


@for_each("fault", PASSING)
def test_a_fault_that_passes_is_mended_by_another_try(fault: str) -> None:
    async def scenario() -> None:
        async with (
            FaultyModel([PASSING[fault]]) as model,
            pool_of(model, request_timeout=0.3) as pool,
        ):
            assert json.loads(await pool.post("/responses", BODY))["id"] == "resp_1"
            assert [request.body for request in model.requests] == [BODY, BODY]
            report = pool.report().endpoints[0]
            assert (report.ok, sum(report.failed.values()), report.in_flight) == (1, 1, 0)

    asyncio.run(scenario())


@for_each("fault", LASTING)
def test_a_fault_that_lasts_ends_typed_when_the_tries_are_used_up(fault: str) -> None:
    step, kind = LASTING[fault]

    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=step) as model,
            pool_of(model, max_retries=2, request_timeout=0.1) as pool,
        ):
            error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is kind
            tries = 5 if kind is ModelRateLimitError else 3
            assert len(model.requests) == tries
            assert str(error).startswith(f"POST {model.base_url}/responses ")
            assert str(error).endswith(f"({tries} tries)")

    asyncio.run(scenario())


@for_each("fault", REFUSALS)
def test_a_refusal_ends_typed_after_one_try(fault: str) -> None:
    step, kind = REFUSALS[fault]

    async def scenario() -> None:
        async with FaultyModel([step]) as model, pool_of(model) as pool:
            error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is kind
            assert len(model.requests) == 1
            assert "(1 try)" in str(error)

    asyncio.run(scenario())


def test_a_malformed_answer_is_asked_for_again_only_once() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=reply(200, b"[]")) as model, pool_of(model) as pool:
            error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is ModelMalformedError
            assert len(model.requests) == 2

    asyncio.run(scenario())


def test_an_endpoint_that_nobody_listens_at_is_unavailable() -> None:
    async def scenario() -> None:
        url = f"http://127.0.0.1:{unused_port()}/v1"
        async with pool_of(url, max_retries=1) as pool:
            error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is ModelUnavailableError
            assert url in str(error)

    asyncio.run(scenario())


@for_each("url", ["http://no-such-host.invalid/v1", "https://127.0.0.1:{port}/v1"])
def test_a_name_that_is_unknown_and_a_port_without_tls_are_unavailable(url: str) -> None:
    async def scenario() -> None:
        async with FaultyModel() as model, pool_of(url.format(port=model.port)) as pool:
            error = await failure_of(pool.get("/models"))
            assert type(error) is ModelUnavailableError
            assert "could not connect" in str(error)

    asyncio.run(scenario())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)

    async def scenario() -> None:
        async with FaultyModel(tls=tls) as model, pool_of(model, max_retries=0) as pool:
            error = await failure_of(pool.get("/models"))
            assert type(error) is ModelUnavailableError
            assert "certificate" in str(error)
            assert not model.requests

    asyncio.run(scenario())


def test_a_wait_longer_than_we_take_is_left_to_the_caller() -> None:
    async def scenario() -> None:
        step = reply(429, headers={"retry-after": "120"})
        async with FaultyModel([step]) as model, pool_of(model) as pool:
            error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is ModelRateLimitError
            assert error.retry_after == 120
            assert len(model.requests) == 1

    asyncio.run(scenario())


def test_an_answer_beyond_the_bound_is_not_kept_however_it_was_packed() -> None:
    large = json.dumps({"output": "x" * 10**6}).encode()
    packed = reply(200, gzip.compress(large), headers={"content-encoding": "gzip"})

    async def scenario() -> None:
        for step in (reply(200, large), packed):
            async with (
                FaultyModel(otherwise=step) as model,
                pool_of(model, max_answer_bytes=10**5) as pool,
            ):
                error = await failure_of(pool.post("/responses", BODY))
                assert type(error) is ModelMalformedError
                assert "max_answer_bytes" in str(error)

    asyncio.run(scenario())


def test_a_packed_answer_and_a_large_request_pass_whole() -> None:
    said = {"output": ["x" * 10**5]}
    packed = reply(
        200, gzip.compress(json.dumps(said).encode()), headers={"content-encoding": "gzip"}
    )
    large = json.dumps({"input": "y" * (3 << 20)}).encode()

    async def scenario() -> None:
        async with FaultyModel([reset(), packed]) as model, pool_of(model) as pool:
            assert json.loads(await pool.post("/responses", large)) == said
            assert model.requests[-1].body == large

    asyncio.run(scenario())


def test_a_request_carries_the_key_and_the_type_and_no_cookie_that_was_set() -> None:
    async def scenario() -> None:
        cookie = reply(200, {"output": []}, headers={"set-cookie": "session=1; Path=/"})
        async with FaultyModel([cookie]) as model, pool_of(model) as pool:
            assert await pool.post("/responses", BODY) == b'{"output": []}'
            assert json.loads(await pool.get("/models"))["object"] == "list"
            post, get = model.requests
            assert (post.method, post.path) == ("POST", "/v1/responses")
            assert (get.method, get.path, get.body) == ("GET", "/v1/models", b"")
            assert post.headers["content-type"] == "application/json"
            for request in (post, get):
                assert request.headers["authorization"] == f"Bearer {KEY}"
                assert "cookie" not in request.headers

    asyncio.run(scenario())


def test_an_error_tells_of_the_fault_before_it_where_that_was_another() -> None:
    async def scenario() -> None:
        script = [reply(429), error(500, "Broken"), error(401, "Wrong key")]
        async with FaultyModel(script) as model, pool_of(model) as pool:
            failure = await failure_of(pool.post("/responses", BODY))
            assert type(failure) is ModelAuthError
            assert str(failure).endswith("(3 tries; the try before answered 500: Broken)")

    asyncio.run(scenario())
