"""Browser nodes on a Ray cluster: one on each node, registered with the browser server.

Each is a browser server of the role `node`, started by an actor, and ends with it. Ray starts an
actor again that was lost on a node that lives; a lost node takes its sessions with it, and the
master gives new sessions to the others.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rollgym.cluster.ray_nodes import address_of, living_nodes, own_address
from rollgym.servers.launch.records import StartError
from webgym.browser.settings import TOKEN_VARIABLE
from webgym.rollout.embedded import EmbeddedProgram, EmbeddedServer

START_TIMEOUT = 120.0
STOP_TIMEOUT = 20.0
RESTARTS = 3
_LOGGER = logging.getLogger(__name__)


class RayBrowserNode:
    """An actor: the browser server of one node. Its name is what the dashboard shows."""

    def __init__(self, master: str, token: str | None, sessions: int, allowed: list[str]) -> None:
        """`allowed` are the networks that pages may reach although they are not public."""
        import ray  # noqa: PLC0415 - only with `launcher=ray`

        arguments = (
            *("serve", "--role", "node", "--master", master, "--capacity", str(sessions)),
            *("--host", own_address(ray), "--port", "{port}"),
            *(part for each in allowed for part in ("--allow-network", each)),
        )
        variables = {TOKEN_VARIABLE: token} if token else {}
        program = EmbeddedProgram("browser node", "webgym.browser", arguments, variables)
        logs = Path(tempfile.mkdtemp(prefix="rollgym-browsers-"))
        self._server = EmbeddedServer(program, logs, START_TIMEOUT)
        self._server.__enter__()

    def url(self) -> str:
        """The URL of the server, which is ready."""
        return self._server.url

    def stop(self) -> None:
        """End the server and its browsers."""
        self._server.__exit__()


@asynccontextmanager
async def browsers_on_ray(
    sessions: int, master: str, token: str | None, allowed: list[str]
) -> AsyncIterator[None]:
    """Browser nodes with this number of sessions each, for the block. Ray must be connected.

    Raises StartError where no node can run browsers.
    """
    import ray  # noqa: PLC0415 - only with `launcher=ray`
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    actor = ray.remote(RayBrowserNode)
    placed: dict[str, Any] = {}
    for node in living_nodes(ray):
        name, address = node["NodeID"], address_of(node)
        placed[name] = actor.options(
            name=f"rollgym browsers on {address} ({name[:6]})",
            num_cpus=0,
            max_restarts=RESTARTS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False),
        ).remote(master, token, sessions, allowed)
    try:
        await _require_one(placed)
        yield
    finally:
        await asyncio.to_thread(_stop, ray, list(placed.values()))


async def _require_one(placed: dict[str, Any]) -> None:
    """Wait for all nodes; one is enough. Raises StartError."""
    starting = {
        asyncio.wrap_future(each.url.remote().future()): name for name, each in placed.items()
    }
    ended, late = await asyncio.wait(starting, timeout=START_TIMEOUT)
    problems = [f"{starting[each]}: {each.exception()}" for each in ended if each.exception()]
    problems += [f"{starting[each]}: not ready within {START_TIMEOUT:g} s" for each in late]
    for problem in problems:
        _LOGGER.warning("a Ray node has no browsers: %s", problem)
    if len(problems) == len(placed):
        raise StartError(f"no node of the Ray cluster can run browsers: {problems[0][:1000]}")


def _stop(ray: Any, actors: list[Any]) -> None:
    stopping = [each.stop.remote() for each in actors]
    ray.wait(stopping, num_returns=len(stopping), timeout=STOP_TIMEOUT)
    for each in actors:
        ray.kill(each)
