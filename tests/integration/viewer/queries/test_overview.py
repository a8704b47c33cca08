import msgspec
import pytest

from rollgym.viewer.queries.counts import RolloutPace, coverage, facets, totals
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.overview import overview
from rollgym.viewer.queries.tasks import MOST_GRID_CELLS, grid, related
from rollgym.viewer.source import EntryId
from tests.integration.viewer.queries.databases import Rows


def test_the_overview_has_everything_of_the_entries_that_fit(run: Rows) -> None:
    found = msgspec.json.decode(msgspec.json.encode(overview(run.connection, Filter(), 9)))
    assert found["coverage"] == {
        "expected": 9,
        "completed": 4,
        "failed": 1,
        "omitted": 1,
        "unresolved": 3,
        "unreadable": 1,
        "retried": 1,
        "inputs": 0,
    }
    assert (found["rollouts"], found["mean_reward"], found["success_rate"]) == (6, 0.625, 0.5)
    assert (found["judged"], found["successes"]) == (4, 2)
    assert found["reward"]["count"] == 4
    assert found["reward"]["bins"][-1] == {
        "from": 0.95,
        "to": 1.0,
        "count": 2,
        "min": 1.0,
        "max": 1.0,
    }
    assert found["over_time"]["by"] == "time"
    assert sum(point["rollouts"] for point in found["over_time"]["points"]) == 5
    assert set(found["over_time"]["points"][0]) == {
        *("from", "to", "min", "max", "rollouts", "successes", "judged", "mean_reward"),
    }
    assert (found["steps"]["min"], found["steps"]["max"]) == (3, 9)
    assert found["tokens"]["count"] == 2
    assert found["kinds"] == [
        {"kind": "tool", "failed": 1, "retried": 1, "meaning": "a tool or its server failed"}
    ]
    assert found["causes"] == [
        {
            "id": 1,
            "kind": "tool",
            "text": "the server answered HTTP …",
            "entries": 2,
            "failed": 1,
            "retried": 1,
            "example": "0-6",
        }
    ]
    assert found["tools"] == [
        {"name": "open", "rollouts": 2, "calls": 5},
        {"name": "search", "rollouts": 2, "calls": 3},
    ]
    assert [(each["k"], each["tasks"]) for each in found["pass_at"]] == [(1, 2), (2, 1), (3, 1)]
    assert found["pass_at"][0]["value"] == pytest.approx((1 / 3 + 1) / 2)
    assert found["endings"] == [
        {"ending": "answer", "rollouts": 3},
        {"ending": "limit", "rollouts": 1},
    ]
    assert found["search"] is None


def test_the_overview_is_of_the_filter_and_coverage_of_all(run: Rows) -> None:
    found = overview(run.connection, Filter(success=True), None)
    assert (found.rollouts, found.mean_reward, found.coverage.completed) == (2, 1.0, 4)
    assert (found.coverage.expected, found.coverage.unresolved) == (None, None)
    assert found.kinds == ()


def test_a_bar_filters_to_exactly_what_it_counts(run: Rows) -> None:
    found = overview(run.connection, Filter(), None)
    for name in ("reward", "steps", "tool_calls", "tokens", "seconds"):
        for each in getattr(found, name).bins:
            if each.count:
                query = {f"min_{name}": [str(each.min)], f"max_{name}": [str(each.max)]}
                within = overview(run.connection, Filter.of(query), None)
                assert within.rollouts == each.count


@pytest.mark.parametrize("step", [1e-6, 2.4e-7, 1e-5, 0.37, 61.0])
def test_a_portion_of_time_filters_to_exactly_what_it_counts(rows: Rows, step: float) -> None:
    for record in range(1, 200):
        rows.add(record, started=1_790_000_000.1 + step * (record % 101))
    for point in overview(rows.connection, Filter(), None).over_time.points:
        query = {"min_started": [str(point.least)], "max_started": [str(point.most)]}
        assert overview(rows.connection, Filter.of(query), None).rollouts == point.rollouts


def test_so_does_a_portion_of_the_records_where_there_are_no_times(rows: Rows) -> None:
    for record in range(1, 200):
        rows.add(record % 70 + 1 + 70 * (record // 70), part=record // 70)
    points = overview(rows.connection, Filter(), None).over_time.points
    assert sum(point.rollouts for point in points) == 199
    for point in points:
        query = {"min_record": [str(point.least)], "max_record": [str(point.most)]}
        assert overview(rows.connection, Filter.of(query), None).rollouts == point.rollouts


def test_an_empty_index_has_an_overview(rows: Rows) -> None:
    found = overview(rows.connection, Filter(), 3)
    assert (found.rollouts, found.mean_reward, found.reward) == (0, None, None)
    assert found.coverage.unresolved == 3
    assert facets(rows.connection).status == ()
    assert grid(rows.connection, None).cells == ""


def test_tools_are_counted_over_several_parts(rows: Rows) -> None:
    for part in (0, 3):
        for record in (1, 2):
            rows.add(record, part=part, reward=float(record), tools={"search": record})
    assert overview(rows.connection, Filter(), None).tools[0].rollouts == 4
    assert overview(rows.connection, Filter.of({"min_reward": ["2"]}), None).tools[0].calls == 4


def test_a_tool_of_a_record_behind_the_selection_is_not_counted_in_the_next_part(
    rows: Rows,
) -> None:
    for part in (0, 1):
        for record in range(1, 9):
            rows.add(record, part=part, task=record, tools={"search": 1})
    (found,) = overview(rows.connection, Filter.of({"task": ["1", "2", "3"]}), None).tools
    assert (found.rollouts, found.calls) == (6, 6)


def test_totals_are_of_what_stands(run: Rows) -> None:
    found = totals(run.connection, 6)
    assert (found.mean_reward, found.success_rate) == (0.625, 0.5)
    assert found.coverage == coverage(run.connection, 6)
    assert found.coverage.unresolved == 0


def test_the_pace_is_that_of_the_last_minutes(rows: Rows) -> None:
    assert totals(rows.connection, None).pace == RolloutPace()
    rows.add(1, started=1000.0, seconds=10.0)
    rows.add(2, status="failed", started=1070.0, seconds=50.0)
    rows.add(3, status="input")
    assert totals(rows.connection, None).pace == RolloutPace(1000.0, 1120.0, 1.0)
    for minute in range(10):
        rows.add(minute + 4, started=2000.0 + 60 * minute, seconds=60.0)
    assert totals(rows.connection, None).pace == RolloutPace(1000.0, 2600.0, 1.0)


def test_of_a_moment_no_pace_is_reported(rows: Rows) -> None:
    rows.add(1, started=1000.0, seconds=0.1)
    assert totals(rows.connection, None).pace == RolloutPace(1000.0, 1000.1, None)


def test_facets_count_what_a_filter_would_show(run: Rows) -> None:
    found = facets(run.connection)
    assert {facet.value: facet.count for facet in found.status} == {
        "completed": 4,
        "failed": 1,
        "omitted": 1,
        "retried": 1,
        "unreadable": 1,
    }
    assert [(facet.value, facet.count) for facet in found.kind] == [("tool", 1)]
    assert [(facet.value, facet.count) for facet in found.agent] == [("simple", 6)]
    assert [(facet.value, facet.count) for facet in found.ending] == [("answer", 3), ("limit", 1)]
    assert [(facet.value, facet.count) for facet in found.difficulty] == [(2, 3), (5, 3)]
    assert [(facet.value, facet.count) for facet in found.tool] == [("open", 2), ("search", 2)]
    assert [(each.name, each.records) for each in found.fields] == [
        ("judge", 2),
        ("score.final", 2),
    ]


def test_a_rollout_keeps_its_cell_of_the_grid(run: Rows) -> None:
    found = grid(run.connection, 9)
    assert found.cells == "+xx+!-..."
    assert found.entries == (1, 2, 4, 5, 6, 7)
    assert found.counts == {"failed": 1, "failure": 2, "success": 2, "omitted": 1, "not_started": 3}
    assert grid(run.connection, None).cells == "+xx+!-"
    assert grid(run.connection, 8).cells == "+xx+!-.."


def test_a_cell_does_not_move_when_the_repeats_are_known(rows: Rows) -> None:
    rows.add(1, task=1, repeat=0, success=1)
    assert grid(rows.connection, 6, 3).cells == "...+.."
    rows.add(2, task=0, repeat=2, success=0)
    assert grid(rows.connection, 6, 3).cells == "..x+.."


def test_a_large_grid_shows_the_state_of_most(rows: Rows) -> None:
    for record in range(1, MOST_GRID_CELLS + 2):
        rows.add(record, task=record - 1, repeat=0, success=int(record > 2))
    found = grid(rows.connection, None)
    assert found.rollouts_per_cell == 2
    assert found.cells == "x" + "+" * (MOST_GRID_CELLS // 2)
    assert found.entries == ()


def test_what_a_page_blocked_is_no_failure_in_the_grid(rows: Rows) -> None:
    rows.add(1, task=1, repeat=0, fields={"is_blocked": True})
    rows.add(2, task=2, repeat=0, fields={"is_blocked": False})
    rows.add(3, task=0, repeat=0, success=0, fields={"is_blocked": True})
    found = grid(rows.connection, 5)
    assert (found.cells, found.entries) == ("x#=..", (3, 1, 2))
    assert found.counts == {"failure": 1, "blocked": 1, "earlier": 1, "not_started": 2}


def test_a_sibling_that_a_page_blocked_says_so(rows: Rows) -> None:
    rows.add(1, task=0, repeat=0, fields={"is_blocked": True})
    rows.add(2, task=0, repeat=1, success=1, fields={"is_blocked": False})
    siblings = related(rows.connection, EntryId(0, 2)).siblings
    assert [each.blocked for each in siblings] == [True, False]


def test_an_entry_has_siblings_and_attempts(run: Rows) -> None:
    found = related(run.connection, EntryId(0, 4))
    assert found.is_outcome
    assert [(each.id, each.repeat) for each in found.siblings] == [
        ("0-1", 0),
        ("0-2", 1),
        ("0-4", 2),
    ]
    assert [(each.id, each.status, each.detail) for each in found.attempts] == [
        ("0-3", "retried", "HTTP 503"),
        ("0-4", "completed", ""),
    ]
    alone = related(run.connection, EntryId(0, 8))
    assert (alone.siblings, alone.attempts) == ((), ())
    with pytest.raises(KeyError):
        related(run.connection, EntryId(0, 99))
