"""What a channel counts and remembers."""

from webgym.browser.guard.connection import SessionTraffic
from webgym.browser.guard.guard import FailedTarget, FailedTargetLog


def test_the_same_target_is_remembered_once_and_as_late_as_it_was_asked_for() -> None:
    log = FailedTargetLog(10)
    for host in ("a", "b", "a"):
        log.note(FailedTarget(host, 80, "why"))
    assert [missed.host for missed in log.take()] == ["b", "a"]
    assert log.take() == []


def test_a_page_that_asks_for_much_leaves_the_latest() -> None:
    log = FailedTargetLog(3)
    for port in range(1, 1_000):
        log.note(FailedTarget("a", port, "why"))
    assert [missed.port for missed in log.take()] == [997, 998, 999]


def test_each_step_has_its_own_bytes() -> None:
    traffic = SessionTraffic(100, lambda target: None)
    exceeded = []
    for received, sent in ((60, 40), (0, 1)):
        traffic.received += received
        traffic.sent += sent
        exceeded.append(traffic.exceeded)
    traffic.begin_step()
    for received, sent in ((0, 0), (70, 30), (1, 0)):
        traffic.received += received
        traffic.sent += sent
        exceeded.append(traffic.exceeded)
    assert exceeded == [False, True, False, False, True]
    assert (traffic.received, traffic.sent) == (131, 71)
