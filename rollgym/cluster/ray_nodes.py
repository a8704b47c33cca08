"""The nodes of a Ray cluster, and their addresses in it.

A machine may have several addresses; the one that counts is that with which its node registered.
"""

from typing import Any


def living_nodes(ray: Any) -> list[dict[str, Any]]:
    """The nodes that Ray believes to be alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def address_of(node: dict[str, Any]) -> str:
    """The address at which other nodes reach it."""
    return str(node["NodeManagerAddress"])


def own_address(ray: Any) -> str:
    """The address of the node of this process."""
    own = ray.get_runtime_context().get_node_id()
    nodes = {node["NodeID"]: address_of(node) for node in ray.nodes()}
    return nodes.get(own) or str(ray.util.get_node_ip_address())
