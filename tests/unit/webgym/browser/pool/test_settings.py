"""The limits of a pool."""

from tests.cases import for_each
from webgym.browser.pool.decisions import BrowserPoolSettings


def test_the_defaults_are_one_browser_with_sixteen_sessions() -> None:
    settings = BrowserPoolSettings()
    assert (settings.capacity, settings.most_browsers) == (16, 1)


@for_each(
    ("capacity", "per_browser", "browsers"), [(1, 16, 1), (16, 16, 1), (17, 16, 2), (64, 16, 4)]
)
def test_there_are_as_many_browsers_as_the_capacity_needs(
    capacity: int, per_browser: int, browsers: int
) -> None:
    settings = BrowserPoolSettings(capacity=capacity, sessions_per_browser=per_browser)
    assert settings.most_browsers == browsers
