"""Dual coordinate ascent by pairs: the optimum, a dual value that never falls, steps that are best for their pair."""

from __future__ import annotations

import numpy as np

from convexstruct.families.structured_svm.solvers import dual_coordinate_ascent
from convexstruct.tolerances import ROUNDING
from tests.families.structured_svm.solvers.references import reference


def test_a_pair_moves_to_its_best_and_the_sum_of_an_example_stays() -> None:
    problem, _ = reference("slack scaling, Hamming")
    run = dual_coordinate_ascent._Run(problem)
    rng = np.random.default_rng(0)
    for _ in range(6):
        found = problem.most_violated(run.w)
        run.grow(found.labels, found.violation > 0)
        run.sweep(rng)
        sums = np.add.reduceat(run.alpha, run.start[:-1])
        np.testing.assert_allclose(sums, problem.ceiling)
        assert (run.alpha >= 0).all()
        np.testing.assert_allclose(run.psi, run.a.T @ run.alpha, atol=ROUNDING * (1 + abs(run.psi).max()))
    inside = 0
    for i in range(problem.n_examples):
        at = slice(run.start[i], run.start[i + 1])
        before, psi = run.alpha.copy(), run.psi.copy()
        rows = run.a[at] if isinstance(run.a, np.ndarray) else run.a[at].toarray()
        run._step(at, rows)
        moved = run.alpha - before
        if not moved.any():
            continue
        low, high = int(moved.argmin()), int(moved.argmax())
        assert np.count_nonzero(moved) == 2
        steps = np.linspace(0.0, before[low], 2001)
        by = rows[high - at.start] - rows[low - at.start]
        rise = run.b[high] - run.b[low]
        lost = float(run.b @ before)
        tried = [problem.dual_value(psi + t * by, lost + t * rise) for t in steps]
        assert run.bound >= max(tried) - ROUNDING
        inside += 0 < int(np.argmax(tried)) < 2000
    assert inside
