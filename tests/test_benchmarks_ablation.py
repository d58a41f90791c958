"""The bookkeeping of the ablations: names are put back, figures are added, verdicts are those of the figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import ablation
from benchmarks.ablation import Figures, Mechanism, Oracle, Study, main, moved, patched, studies, verdicts
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin

AS_IS = Figures(1.0, 10, 100, 1e-7, "OPTIMAL")


def test_a_patch_of_a_name_that_is_not_there_is_an_error_and_undoes_the_others() -> None:
    patches = {"benchmarks.ablation:MATTERS": 7.0, "benchmarks.ablation:NOWHERE": 0}
    with pytest.raises(AttributeError, match="NOWHERE"), patched(patches):
        pass
    assert ablation.MATTERS == 0.1


@pytest.mark.parametrize("study", studies(), ids=lambda study: study.name)
def test_every_mechanism_names_options_and_places_that_there_are(study: Study) -> None:
    for mechanism in study.mechanisms:
        assert mechanism.options or mechanism.patches, mechanism.name
        assert replace(study.solver, **mechanism.options)
        with patched(mechanism.patches):
            pass
    names = [mechanism.name for mechanism in study.mechanisms]
    assert len(set(names)) == len(names)


def test_a_mechanism_matters_where_time_or_rounds_or_calls_move_or_the_gap_is_missed() -> None:
    assert not moved(replace(AS_IS, seconds=1.05, rounds=10, calls=95), AS_IS)
    assert moved(replace(AS_IS, seconds=1.2), AS_IS)
    assert moved(replace(AS_IS, rounds=8), AS_IS)
    assert moved(replace(AS_IS, calls=111), AS_IS)
    assert moved(replace(AS_IS, seconds=math.inf), AS_IS)


def test_what_moves_nothing_anywhere_and_what_only_costs_are_named() -> None:
    slower, faster = replace(AS_IS, seconds=2.0), replace(AS_IS, seconds=0.5, calls=50)
    found = {
        "one": {"": AS_IS, "idle": AS_IS, "useful": slower, "harmful": faster, "mixed": faster},
        "two": {"": AS_IS, "idle": AS_IS, "useful": AS_IS, "harmful": faster, "mixed": slower},
    }
    assert verdicts(found) == (["idle"], ["harmful"])


def test_a_small_study_runs_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def build() -> GenerativeMargin:
        return GenerativeMargin.hmm([[0, 1, 1], [1, 0]], [[0, 1, 0], [1, 1]], 2, 2, eta=0.5)

    study = Study("small", [build, build], EntropicProximal(), 1e-3, [Mechanism("Newton's metric", {"newton": False})])
    file = tmp_path / "figures.json"
    assert main(["--json", str(file)], [study]) == 0
    rows = json.loads(file.read_text())
    assert [row["without"] for row in rows] == ["", "Newton's metric"]
    assert all(row["gap"] <= 1e-3 and row["rounds"] >= 2 for row in rows)
    assert "nothing (as it is)" in capsys.readouterr().out


def test_an_oracle_takes_the_place_of_a_solver_and_misses_where_its_error_is_too_large() -> None:
    called = []

    def call(instance: list[int]) -> tuple[int, float]:
        called.append(len(instance))
        return 4, float(len(instance))

    study = Study("oracle", [lambda: [1], lambda: [1, 2]], Oracle(call, 3), 1.0, [])
    figures = ablation.measure(study, None, 1, 1.0)
    assert called == [1, 1, 1, 2, 2, 2]
    assert (figures.seconds, figures.rounds, figures.calls, figures.gap) == (math.inf, 8, 6, 2.0)
    unknown = ablation.measure(replace(study, solver=Oracle(lambda _: (1, math.nan))), None, 1, 1.0)
    assert math.isfinite(unknown.seconds)
    assert unknown.status == "CALLED"
