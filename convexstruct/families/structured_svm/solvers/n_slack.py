r"""Cutting planes with one slack an example (paper 1, "Cutting-plane algorithm [TJHA05]"; paper 4, "Cutting plane
optimization"). From pools of the truth alone, w = 0:

    for each example   y = argmax_y E_i(y) - <w, df_i(y)>, or E_i(y) (1 - <w, df_i(y)>) under slack scaling;
                       if that is above xi_i + eps, add y to the pool of i
    where some were added, w and xi <- optimum of the problem restricted to the pools   (`restricted_master`)
    until a pass adds nothing: then P(w) - p* <= eps sum_i c_i

with c_i = C omega_i. The restricted problem bounds p* from below, and its multipliers are the dual witness.

**Bound** (Tsochantaridis, Joachims, Hofmann, Altun 2005, theorem 18). R = max |e_i(y) df_i(y)| is a length; the slides
print R^2 = max df_i(y) df_j(y'), which is largest where the two are the same. In the scale of paper 1, lam = 1,
c_i = C/N, and with Dmax the largest loss, at most max(2 N Dmax / eps, 8 C Dmax R^2 / eps^2) labellings are added if the
restricted problem is solved after each of them (``block=1``); here, for any weights,

    sum_i c_i max E_i  max(2 / (eps min_i c_i), 8 R^2 / (lam eps^2)).

Each one raises the dual value, which is at most sum_i c_i max E_i, by at least min(c_i eps / 2, lam eps^2 / (8 R^2)).
If several examples are visited between two solutions, the theorem bounds the number of solutions instead. Under slack
scaling R contains the factor E_i(y), which explains the Dmax^3 of the theorem. The theorem assumes exact solutions,
``inner=0``; inexact ones are cheaper, but the bound need not hold for them.

**Corrected** (paper 4). The slides "maximize" with no constraints and call that an upper bound: it is a minimum, and a
lower bound. Their test of a constraint compares probabilities P~ where the margin is one of ln P~: P~ = 100 passes it
against 98. As the maximum is over all y here, no decoding has to leave out the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Flags, Labels, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, or_none, positive, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import EXACT_GAP, solve_pools
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, example_blocks, starting_w
from convexstruct.tolerances import HIGH
from convexstruct.validation.arguments import number


def n_slack_bound(problem: StructuredSVM, eps: float, radius: float) -> float:
    """How many labellings `NSlack` with ``block=1`` adds at most; ``radius`` is R = max |e_i(y) df_i(y)| or above."""
    c = problem.ceiling
    most = float(c @ problem.loss.most)
    return most * max(2.0 / (eps * float(c.min())), 8.0 * radius**2 / (problem.lam * eps**2))


@dataclass(frozen=True)
class NSlack:
    """Options.

    eps : by how much a labelling must be violated beyond the slack to be added, in units of the loss (under margin
        scaling).
    block : examples between two solutions of the restricted problem; None: all, which is fastest in NumPy. 1 is the
        algorithm of the slides.
    inner : the restricted problem is solved to this share of the gap that is left; 0: exactly.
    """

    eps: float = 1e-2 * HIGH.gap
    block: int | None = None
    inner: float = 0.1

    def __post_init__(self) -> None:
        read_options(
            self,
            eps=positive,
            block=or_none(at_least(1)),
            inner=lambda name, value: number(name, value, least=0, below=1),
        )

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the examples; the labellings of a ``start`` and those violated at its w come first.
        ValueError if that w does not fit the problem."""
        blocks = example_blocks(problem, self.block)
        run = _Run(problem, starting_w(problem, start))
        if start is not None:
            run.pools.add(problem.most_violated(run.w).labels)
            run.pools.adopt(start.dual_point or {})
            run.solve(self.inner)
        calls, added = 0, 1
        while True:
            found = problem.most_violated(run.w)
            calls += 1
            run.primal = min(run.primal, found.value)
            wanted = found.violation > run.xi + self.eps
            at_end = not added or not wanted.any()
            message = f"{run.pools.n_columns - problem.n_examples} labellings added in {run.solved} solutions"
            done = at_end and run.exact
            yield Iterate({"w": run.w}, run.pools.witness(run.alpha), found.value, run.bound, calls, {}, done, message)
            if done:
                return
            added = 1
            if at_end:
                run.solve(0.0)
            elif self.block is None:
                added = run.add(blocks[0], found.labels, wanted, self.inner)
            else:
                added, calls = 0, calls + 1
                for block in blocks:
                    deadline.check()
                    each = block.most_violated(run.w)
                    violated = each.violation > run.xi[block.examples] + self.eps
                    added += run.add(block, each.labels, violated, self.inner)


class _Run:
    """The pools, and the optimum over them: w, xi (N,), alpha, its dual value, and whether it is exact."""

    def __init__(self, problem: StructuredSVM | OracleSVM, w: Vector) -> None:
        self.problem, self.pools, self.w = problem, LabellingPools(problem), w
        self.alpha = np.zeros(self.pools.n_columns)
        self.xi, self.bound, self.primal = np.zeros(problem.n_examples), 0.0, np.inf
        self.solved, self.exact = 0, True

    def add(self, block: ExampleBlock[StructuredSVM | OracleSVM], labels: Labels, wanted: Flags, inner: float) -> int:
        """Add labellings (p,) of those examples of a block that are ``wanted`` (n,); solve if one of them is new."""
        if not wanted.any():
            return 0
        flat = self.problem.features.truth.copy()
        flat[block.nodes] = labels
        every = np.zeros(self.problem.n_examples, dtype=bool)
        every[block.examples] = wanted
        added = self.pools.add(flat, every)
        if added:
            self.solve(inner)
        return added

    def solve(self, inner: float) -> None:
        """Solve over the pools, to a share ``inner`` of the present gap between the bounds; 0: exactly."""
        problem, columns = self.problem, self.pools.columns()
        exact = EXACT_GAP * magnitude(problem, min(self.primal, problem.trivial_value))
        tolerance = max(exact, inner * (self.primal - self.bound) if inner > 0 and np.isfinite(self.primal) else 0.0)
        solved = solve_pools(columns, problem.ceiling, problem.lam, self.w, tolerance, problem.features.nonnegative)
        self.w, self.alpha, self.bound = problem.project(solved.w), solved.alpha, solved.bound
        self.pools.alpha = solved.alpha
        margin = columns.b - columns.a @ self.w
        self.xi = np.maximum.reduceat(margin, np.searchsorted(columns.owner, np.arange(problem.n_examples)))
        self.solved, self.exact = self.solved + 1, tolerance <= exact
