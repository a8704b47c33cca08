"""A few Chromium processes for many sessions: placed, watched, recycled, replaced."""

from webgym.browser.pool.decisions import BrowserInfo, BrowserPoolSettings, PoolEvent, PoolInfo
from webgym.browser.pool.pool import BrowserPool

__all__ = ["BrowserInfo", "BrowserPool", "BrowserPoolSettings", "PoolEvent", "PoolInfo"]
