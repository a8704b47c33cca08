"""Limits of a run, divided among its processes."""

from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers.endpoints.settings import divided_limits, smallest_limit

POOL = {
    "openai_base_url": [
        "http://a/v1",
        {"base_url": "http://b/v1", "max_concurrency": 5},
    ],
    "max_concurrency": 8,
    "pool": {"max_retries": 4},
    "extra_body": None,
}


@given(limit=st.integers(1, 1000), processes=st.integers(1, 1000))
def test_the_parts_of_a_limit_are_the_limit(limit: int, processes: int) -> None:
    parts = [
        divided_limits({"max_concurrency": limit}, number, processes)["max_concurrency"]
        for number in range(processes)
    ]

    assert max(parts) - min(parts) <= 1
    assert sum(parts) == max(limit, processes)


def test_every_endpoint_has_its_part_and_other_settings_stay() -> None:
    first, second = (divided_limits(POOL, number, 2) for number in range(2))

    assert (first["max_concurrency"], second["max_concurrency"]) == (4, 4)
    assert first["openai_base_url"][1] == {"base_url": "http://b/v1", "max_concurrency": 3}
    assert second["openai_base_url"][1] == {"base_url": "http://b/v1", "max_concurrency": 2}
    assert {**first, "max_concurrency": 8, "openai_base_url": POOL["openai_base_url"]} == POOL


def test_the_smallest_limit_anywhere_bounds_the_processes() -> None:
    assert smallest_limit(POOL) == 5
    assert smallest_limit({"max_concurrency": None, "pool": {}}) is None
