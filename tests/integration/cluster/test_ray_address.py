"""The address of a Ray cluster, without Ray."""

import asyncio
import socket
import sys
from types import SimpleNamespace

import pytest

from rollgym.cluster.ray_cluster import ray_cluster
from rollgym.cluster.settings import ClusterSettings
from rollgym.servers.launch.records import StartError


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_an_address_where_nothing_listens_is_named_at_once(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would go on asking."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # and not listening
        address = f"{host}:{reserved.getsockname()[1]}"
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))

        async def connect() -> None:
            async with ray_cluster(ClusterSettings("ray", ray_address=address)):
                raise AssertionError("there is no cluster")

        with pytest.raises(StartError, match=f"no Ray cluster answers at {address}"):
            asyncio.run(connect())
