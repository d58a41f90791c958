"""The comparison of SVM solvers, quick: every solver on every set, certified optima, and what was left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convexstruct.datasets.real.sources import VARIABLE
from convexstruct.families.regularized_risk.experiments import svm_solvers
from convexstruct.families.regularized_risk.experiments.svm_paths import HeldOut
from tests.families.quick_runs import quick


@pytest.mark.slow
def test_every_solver_runs_on_every_set_none_is_below_the_optimum_and_the_default_arrives_first() -> None:
    result = quick("svm-solvers").result
    rows = [dict(zip(result.columns, row)) for row in result.rows if row[1] != "liblinear"]
    assert [(row["set"], row["solver"]) for row in rows] == [
        (name, solver) for name in ("dense", "sparse") for solver in svm_solvers.SOLVERS
    ]
    for row in rows:
        assert row["solver"] == "pragam-b" or float(row["J - J*"] or 0.0) >= 0.0
        assert 0.5 < float(row["accuracy"] or 0.0) <= 1.0
    for name in ("dense", "sparse"):
        taken = {row["solver"]: row["it. to 1e-3"] for row in rows if row["set"] == name}
        reached = {solver: k for solver, k in taken.items() if isinstance(k, int)}
        assert reached["default"] <= min(k for solver, k in reached.items() if str(solver).endswith("bmrm"))
        assert reached["pragam"] < reached.get("ls-bmrm", np.inf)
    assert [caption.split(":")[0] for caption in result.figures] == [
        "Figure 1", "Figure 2", "Figure 3", "Figure 4", "Observed rates",
    ]  # fmt: skip
    assert any("covertype" in note for note in result.notes)


def test_without_a9a_the_generated_sets_serve_and_the_notes_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found, missing = svm_solvers.sets(False, 0)
    assert [split.name for split in found] == ["dense", "sparse"]
    assert any("'a9a' is not here" in sentence for sentence in missing)


def test_lam_is_the_best_on_validation_rows_and_the_larger_of_ties() -> None:
    """The labels are noise: several lam have the best accuracy, and the largest of them is taken."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 2)), np.where(np.arange(50) % 2, 1, -1)
    split = svm_solvers.Split("noise", x, y, HeldOut(x, y))
    lam, accuracies = svm_solvers.choose_lam(split, 0, (10.0, 1.0, 1e-3))
    best = max(accuracies.values())
    assert lam == max(value for value, accuracy in accuracies.items() if accuracy == best)
    assert set(accuracies) == {10.0, 1.0, 1e-3}
