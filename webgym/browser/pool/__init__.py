"""Few Chromium processes, many sessions: placed, watched, recycled, replaced."""

from webgym.browser.pool.info import BrowserInfo, PoolEvent, PoolInfo
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.pool.settings import PoolSettings

__all__ = ["BrowserInfo", "BrowserPool", "PoolEvent", "PoolInfo", "PoolSettings"]
