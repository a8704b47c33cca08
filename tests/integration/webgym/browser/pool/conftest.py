from tests.integration.webgym.browser.chromium.conftest import folder

__all__ = ["folder"]
