"""The parts of the tracking experiment, on instances a thousandth of the paper's."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.datasets import HARD, ring
from convexstruct.families.generative_margin.experiments import tracking
from convexstruct.families.generative_margin.experiments.tracking import Model
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.tolerances import LOW, ROUNDING
from tests.families.quick_runs import quick


def test_a_model_of_the_symbol_alone_scores_as_counted_by_hand() -> None:
    data = ring(5, tracking.LENGTH, noise=HARD, seed=3)
    problem = tracking.problem(data, "ring", 1.0)
    theta = problem.uniform()
    tables = problem.layout.tables(theta)
    tables["emission"][:] = -5.0
    tables["emission"][np.arange(7), np.arange(7)] = -0.1
    found = tracking.score(data, 1, theta)
    apart = [np.abs(x - y) for x, y in zip(data.symbols[1:], data.states[1:])]
    assert found.by_symbol == 1.0
    assert found.entropy == pytest.approx(np.log(10))
    assert found.ring.tolist() == [float(np.minimum(a, 10 - a).sum()) for a in apart]
    assert found.mistakes.tolist() == [float((a > 0).sum()) for a in apart]


def test_discriminative_training_is_certified_on_its_own_sequences_only() -> None:
    data = ring(12, tracking.LENGTH, noise=HARD, seed=5)
    fitted = tracking.train(data, 8, Model("DT", "ring", 0.01))
    assert fitted.solution is not None
    assert fitted.solution.gap <= LOW.gap * 1.01
    first = GenerativeMargin.hmm(data.symbols[:8], data.states[:8], 10, 7, eta=0.01, loss="ring")
    assert first.primal({"theta": fitted.theta}) == pytest.approx(fitted.solution.primal, rel=ROUNDING)


def test_the_papers_algorithm_brackets_the_optimum_and_its_times_are_split_in_three() -> None:
    data = ring(8, tracking.LENGTH, noise=HARD, seed=6)
    known = tracking.train(data, 8, Model("DT", "ring", tracking.MIDDLE))
    found = tracking.paper_algorithm(tracking.problem(data, "ring", tracking.MIDDLE), known, 1.0)
    assert found.solution.lower_bound <= found.optimum * (1 + ROUNDING)
    assert found.optimum <= found.solution.primal
    assert {"master", "direction finding", "centre change"} <= set(found.solution.trace.parts)
    assert len(found.records) >= found.solution.iterations - 1 > 0


def test_a_run_has_a_row_for_each_model_beside_the_published_ones() -> None:
    result = quick("tracking").result
    assert result.column("setting") == ["published"] * 2 + ["EASY"] * 4 + ["HARD"] * 4
    assert result.column("ring loss")[:2] == [103.4, 94.6]
    assert result.column("sd")[:2] == [19.1, 13.5]
    gaps = [gap for model, gap in zip(result.column("model"), result.column("gap")) if model == "DT"][1:]
    assert all(isinstance(gap, float) and 0 <= gap <= LOW.gap * 1.01 for gap in gaps)
    text = " ".join(result.notes)
    assert "no setting found reproduces all of it" in text
    assert "717 s" in text
