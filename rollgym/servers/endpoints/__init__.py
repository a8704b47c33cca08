"""The client of OpenAI-compatible model endpoints, one or several used as one.

It has health-aware balancing, bounded retries, concurrency limits, deadlines and typed errors.
Model servers use it, and agents that call a model directly.
"""

from rollgym.servers.endpoints.pool import EndpointPool, PoolStream
from rollgym.servers.endpoints.settings import (
    ApiKey,
    BaseUrl,
    EndpointPoolSettings,
    EndpointSettings,
    Headers,
    MaxConcurrency,
    endpoint_settings,
)

__all__ = [
    "ApiKey",
    "BaseUrl",
    "EndpointPool",
    "EndpointPoolSettings",
    "EndpointSettings",
    "Headers",
    "MaxConcurrency",
    "PoolStream",
    "endpoint_settings",
]
