"""Model endpoints: the client side of OpenAI-compatible servers, one or several as one.

Health-aware balancing, bounded retries, concurrency limits, deadlines and typed errors. Used by
model servers and by agents that call a model themselves; knows nothing of either.
"""

from rollgym.servers.endpoints.endpoint import EndpointReport
from rollgym.servers.endpoints.pool import EndpointPool, PoolReport
from rollgym.servers.endpoints.settings import (
    ApiKey,
    BaseUrl,
    EndpointSettings,
    MaxConcurrency,
    PoolSettings,
    endpoint_settings,
)

__all__ = [
    "ApiKey",
    "BaseUrl",
    "EndpointPool",
    "EndpointReport",
    "EndpointSettings",
    "MaxConcurrency",
    "PoolReport",
    "PoolSettings",
    "endpoint_settings",
]
