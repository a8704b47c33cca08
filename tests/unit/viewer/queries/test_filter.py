import pytest

from rollgym.viewer.errors import RequestError
from rollgym.viewer.queries.filter import SORTS, Filter, Range

EVERYTHING = {
    "q": ["a text"],
    "status": ["completed", "retried"],
    "success": ["false"],
    "kind": ["timeout", "tool"],
    "cause": ["3"],
    "tool": ["search", "open"],
    "task": ["0", "7"],
    "repeat": ["1"],
    "agent": ["a"],
    "domain": ["b"],
    "model": ["c"],
    "ending": ["d"],
    "min_reward": ["0.25"],
    "max_reward": ["1.0"],
    "max_tokens": ["2000.0"],
    "sort": ["field.judge.score"],
    "order": ["desc"],
    "offset": ["200"],
    "limit": ["50"],
}


def test_a_filter_has_what_its_query_asks_for() -> None:
    assert Filter.of(EVERYTHING) == Filter(
        q="a text",
        status=("completed", "retried"),
        success=False,
        kind=("timeout", "tool"),
        cause=(3,),
        tool=("search", "open"),
        task=(0, 7),
        repeat=(1,),
        agent=("a",),
        domain=("b",),
        model=("c",),
        ending=("d",),
        ranges=(Range("reward", 0.25, 1.0), Range("tokens", None, 2000.0)),
        sort="field.judge.score",
        descending=True,
        offset=200,
        limit=50,
    )


def test_a_query_without_values_asks_for_nothing() -> None:
    assert Filter.of({}) == Filter()
    assert Filter.of({"success": [""], "min_reward": [" "], "kind": []}) == Filter()


def test_the_same_value_twice_is_one() -> None:
    assert Filter.of({"kind": ["tool", "tool"], "success": ["true", "true"]}) == Filter(
        kind=("tool",), success=True
    )


def test_what_means_nothing_is_reported() -> None:
    for query, told in [
        ({"succes": ["true"]}, r"'succes' is an unknown parameter \(did you mean 'success'\?\)"),
        ({"success": ["perhaps"]}, "success='perhaps' is not valid: give one of true, false"),
        ({"success": ["true", "false"]}, "success is given 2 times: give it once"),
        ({"status": ["complete"]}, r"status='complete' .*did you mean 'completed'"),
        ({"min_reward": ["nan"]}, "min_reward='nan' is not valid: give a finite number"),
        ({"max_steps": ["many"]}, "max_steps='many' is not valid: give a finite number"),
        ({"task": ["-1"]}, "task='-1' is not valid: give a whole number"),
        ({"cause": ["9" * 30]}, "cause='9+' is not valid"),
        ({"sort": ["rewards"]}, r"sort='rewards' .*did you mean 'reward'"),
        ({"sort": ["field."]}, "give the name of a field"),
        ({"sort": ['field.a"b']}, "without quotes"),
        ({"order": ["up"]}, "order='up' is not valid: give one of asc, desc"),
        ({"limit": ["0"]}, "limit='0' is not valid: give a whole number from 1 to 500"),
        ({"limit": ["501"]}, "limit='501'"),
        ({"offset": ["1.5"]}, "offset='1.5' is not valid: give a whole number from 0"),
        ({"q": ["a\0b"]}, "without the NUL character"),
        ({"sort": ["field.a\0b"]}, "without the NUL character"),
        ({"q": ["x" * 501]}, "give at most 500 characters"),
        ({"kind": [str(n) for n in range(201)]}, "kind is given 201 times: give at most 200"),
    ]:
        with pytest.raises(RequestError, match=told) as refused:
            Filter.of(query)
        assert refused.value.status == 400


def test_a_view_has_its_own_columns() -> None:
    assert Filter.of({}, sorts=("task", "mean")).sort == "task"
    assert Filter.of({"sort": ["mean"]}, sorts=("task", "mean")).sort == "mean"
    with pytest.raises(RequestError, match="sort='field.x'"):
        Filter.of({"sort": ["field.x"]}, sorts=("task", "mean"))


def test_values_are_parameters_of_the_statement_and_never_in_it() -> None:
    hostile = "'); DROP TABLE entry; --"
    sql, values = Filter.of({"kind": [hostile], "tool": [hostile]}).where()
    assert "DROP" not in sql
    assert values == (hostile, hostile)


def test_without_a_status_what_stands_is_meant() -> None:
    for statuses, condition in [
        ([], "entry.is_outcome = 1"),
        (["retried"], "entry.is_outcome = 0"),
        (["failed"], "(entry.is_outcome = 1 AND entry.status IN (?))"),
        (
            ["failed", "retried"],
            "(entry.is_outcome = 0 OR (entry.is_outcome = 1 AND entry.status IN (?)))",
        ),
    ]:
        assert Filter.of({"status": statuses}).where()[0] == condition


def test_every_column_that_can_be_sorted_by_is_accepted() -> None:
    assert [Filter.of({"sort": [name]}).sort for name in SORTS] == list(SORTS)
