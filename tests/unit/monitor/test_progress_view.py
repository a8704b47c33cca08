from rollgym.monitor.progress_view import (
    ProgressView,
    bar_line,
    clock_time,
    detail_items,
    flow,
    plain_line,
    rate_text,
)

HALF_WAY = ProgressView(
    expected=200,
    resolved=124,
    elapsed=12.0,
    rate=10.3,
    avg_reward=0.7316,
    success_rate=0.68,
    in_flight=16,
    limit=16,
    retried=7,
)
HUGE = ProgressView(
    expected=12_000_000,
    resolved=8_123_456,
    elapsed=200_000.0,
    rate=1234.5,
    avg_reward=-1234.5678,
    success_rate=0.5,
    in_flight=1024,
    limit=1024,
    retried=123_456,
    failed=99_999,
    omitted=1_000,
)


def test_the_bar_fits_the_width() -> None:
    line = bar_line(HALF_WAY, 70, ascii_only=True)
    assert line == "Collecting rollouts:  62%|######    | 124/200 [00:12<00:07, 10.30it/s]"
    assert len(bar_line(HALF_WAY, 200)) == 120
    assert bar_line(HALF_WAY, 30) == "Collecting rollouts:  62% 124/200 [00:12<00:07, 10.30it/s]"


def test_no_line_is_wider_than_the_terminal() -> None:
    cases_1: list[ProgressView] = [HALF_WAY, HUGE]
    cases_2: list[int] = [80, 200]
    for view in cases_1:
        for width in cases_2:
            lines = [bar_line(view, width), *flow(detail_items(view), width)]
            assert max(map(len, lines)) <= width
            assert "|" in lines[0]


def test_lines_break_between_numbers() -> None:
    assert list(flow(detail_items(HALF_WAY), 80)) == [
        "avg_reward 0.732 | success_rate 0.680 | in flight 16/16 | retried 7 | failed 0"
    ]
    lines = list(flow(detail_items(HUGE), 40))
    assert " | ".join(lines) == " | ".join(detail_items(HUGE))


def test_percentages_round_down_and_an_empty_run_is_done() -> None:
    view = ProgressView(expected=100_000, resolved=99_999, elapsed=1.0)
    assert " 99%|" in bar_line(view, 80)
    view = ProgressView(expected=0, resolved=0, elapsed=0.0)
    assert "100%" in bar_line(view, 80)
    assert "[00:00<00:00, ?it/s]" in bar_line(view, 80)


def test_a_plain_line_says_everything_without_control_characters() -> None:
    view = ProgressView(
        expected=10, resolved=3, elapsed=1.0, failure="failing: 2 x tool", stopping="asked"
    )
    line = plain_line(view)
    assert line.isprintable()
    assert line.startswith("Collecting rollouts: 30% 3/10 [00:01<?, ?it/s] avg_reward -, ")
    assert line.endswith("failed 0, failing: 2 x tool, asked")
    view = ProgressView(expected=1, resolved=1, elapsed=1.0, in_flight=None)
    assert "in flight" not in plain_line(view)


def test_times_and_rates_choose_their_units() -> None:
    assert clock_time(59.9) == "00:59"
    assert clock_time(3599) == "59:59"
    assert clock_time(3600) == "1:00:00"
    assert clock_time(200_000) == "55:33:20"
    assert rate_text(None) == "?it/s"
    assert rate_text(2.04) == "2.04it/s"
    assert rate_text(0.5) == "30.00it/min"
    assert rate_text(0.01) == "36.00it/h"
