"""Model endpoints: name, address, key variable, weight and limits."""

from webgym.models.endpoints import EndpointError, FoundryEndpoint, read_endpoints

__all__ = ["EndpointError", "FoundryEndpoint", "read_endpoints"]
