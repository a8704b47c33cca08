from tests.integration.servers.isolation.harness import run

__all__ = ["run"]
