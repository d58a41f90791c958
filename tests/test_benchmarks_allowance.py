"""The benchmark of allowances: each plain formula beside the bound of the same name, on small instances."""

from __future__ import annotations

import pytest

from benchmarks import allowance
from benchmarks.allowance import GOAL, PLAIN, Cost, Row, instances, main, measure
from convexstruct.rounding import Rounded

QUICK = instances(quick=True)


@pytest.mark.parametrize("name", QUICK)
def test_the_plain_values_are_those_of_the_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "SPENT", 0.0)
    row = measure(name, QUICK[name], 1)  # raises where they differ
    assert row.solve > 0
    assert min(row.primal.asked, row.dual.asked) >= 1
    assert 0 <= row.allowance < 1e-8


def test_a_bound_that_is_not_the_plain_value_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "SPENT", 0.0)
    plain = PLAIN["BoxProjection"]
    monkeypatch.setitem(PLAIN, "BoxProjection", lambda *of: (lambda: plain(*of)[0]() * 1.001, plain(*of)[1]))
    with pytest.raises(ArithmeticError, match="box-bias: primal is"):
        measure("box-bias", QUICK["box-bias"], 1)


def test_every_family_with_bounds_has_an_instance_in_both_sizes() -> None:
    for quick in (True, False):
        kinds = {name.partition("-")[0] for name in instances(quick)}
        assert kinds == {"hmm", "svm", "kernel", "risk", "box", "tables", "unsupervised"}


def test_the_cost_counts_what_is_computed_once_once() -> None:
    side = Cost(plain=1.0, first=4.0, again=2.0, asked=3)
    assert side.seconds == 3.0 + 2 * 1.0
    assert Cost(1.0, 4.0, 2.0, 0).seconds == 0.0
    assert Cost(1.0, 0.5, 0.5, 1).seconds == 0.0
    assert Row("made up", 100.0, side, side, 0.0).share == 0.1 > GOAL


def test_the_table_has_a_row_for_each_name_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "box-s", "box-c", "--repeats", "1"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["box-simplex", "box-capped"]
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])


def test_calls_are_counted_and_the_methods_put_back() -> None:
    problem = QUICK["box-bias"]()
    own = type(problem).primal
    point, _ = problem.trivial()
    with allowance.counted(type(problem)) as calls:
        assert isinstance(problem.primal(point), Rounded)
    assert calls["primal"] == 1
    assert type(problem).primal is own
