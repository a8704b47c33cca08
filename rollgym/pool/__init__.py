"""Pools: rollouts that are collected in groups without an end, while a trainer takes them."""

from rollgym.pool.groups import DeliveredGroup
from rollgym.pool.opening import open_pool_run, serve_rollouts
from rollgym.pool.pool import PoolError, RolloutPool
from rollgym.pool.settings import OnPolicyChange, Order, PoolSettings

__all__ = [
    "DeliveredGroup",
    "OnPolicyChange",
    "Order",
    "PoolError",
    "PoolSettings",
    "RolloutPool",
    "open_pool_run",
    "serve_rollouts",
]
