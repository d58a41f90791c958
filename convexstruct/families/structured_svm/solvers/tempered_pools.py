r"""Tempering, then pools of labellings: the default solver for structural SVMs. Ours, not a paper's.

**Tempering.** An entropic proximal point method on the dual: labellings carry weights q_i(y) ~ exp(<Theta, f(x_i, y)> +
B E_i(y)), at first uniform, and each stage minimises

    F(w) = lam/2 |w|^2 + sum_i c_i {tau [ln Z_i(Theta + w/tau, B + 1/tau) - ln Z_i(Theta, B)] - <w, f(x_i, y_i)>}

by L-BFGS, with one sum over all labellings an evaluation; then Theta += w / tau, B += 1 / tau, tau *= shrink. Every
evaluation gives a lower bound, since the new q is a dual point. Unlike plain annealing (Theta = B = 0) the stages
converge at temperatures at which F is still smooth.

**Pools.** The most violated labellings of the last stages and samples of q make a pool for each example; the problem
restricted to the pools is solved (`solvers.pool_qp`), its dual point is also one of the whole problem, and the most
violated labellings at its w are added, until none of them is new.

Slack scaling and the zero-one loss have no such sums over labellings: there the tempering works on margin scaling with
the node losses, to find a start and first pools, and its bounds are not used. If the oracle has no sums (minimum cuts,
a user's own), there is no tempering. Examples of several components are split first (`solvers.components`).

Where exact pools, which need a Gram matrix of all columns, take more than `CHEAP_WORK`, `solvers.pooled_blocks` begins
if features are sparse and some of them very frequent (those of a text occur 4 to 200,000 times, and L-BFGS makes hardly
any progress); and where they take more than `DEAR_WORK`, if the scaling or the loss has no sums. Exact pools take its
labellings over if these are a thousand at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from convexstruct import deadline
from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options, seed, share
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.components import by_component, witness_of_whole
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.families.structured_svm.solvers.labelling_pools import LabellingPools
from convexstruct.families.structured_svm.solvers.pool_qp import EXACT_GAP, solve_pools
from convexstruct.families.structured_svm.solvers.pooled_blocks import pooled_blocks, wide

#: The problem restricted to the pools is solved to this share of the remaining gap: the next labellings change it
#: anyway.
INNER_SHARE = 0.1
#: A stage is poor if it leaves more than this share of the gap primal - lower bound. Exact stages leave about
#: ``shrink``.
POOR_SHARE = 0.9
#: Stages without lower bounds, as under slack scaling, cannot be judged: so many are taken. 100 chains with d = 304, to
#: 1e-3: 1.6 s with 6 of them, 1.9 s with 2, 3.4 s with 1.
UNJUDGED_STAGES = 6
#: After a poor stage the pools take over, if one of their rounds is cheap: if a Newton step with `CHEAP_COLUMNS`
#: labellings an example takes fewer than `CHEAP_WORK` multiplications; a round takes about 15 such steps, and a second.
#: Else the next stage has twice the L-BFGS steps, and the pools take over once a stage with `LONGEST_STAGE` times the
#: steps of the first is poor.
CHEAP_WORK = 1.3e9
CHEAP_COLUMNS = 8
LONGEST_STAGE = 8
#: Above so many multiplications blocks begin where the scaling or the loss has no sums over labellings. Slack scaling,
#: to 1e-3: 900 chains with d = 464 (1.5e9) take 1.6 s by pools, by blocks more than 9 s; 600 with d = 1,300 (8e9) more
#: than 20 s both ways; handwriting, d = 4,004 (8e10), 19 s by blocks, and has no bound after 26 s by pools.
DEAR_WORK = 2e10
#: After so many rounds of `pooled_blocks` the pools take over if the cube of the number of labellings is at most
#: `STEP_WORK`: 1,000 labellings, a second a round. Where features differ much in size blocks need the pools. Elsewhere
#: they end before: generated text of 15 to 30 sentences, C = 20 to 200 and d above 1e5 takes 73 to 131 rounds and 1.5
#: to 3.6 s of the processor to 1e-6, or 1e-4 with slack scaling, where pools that take over after 40 rounds stand at
#: 0.15 to 0.94 after a minute. With 3,000 labellings (100 sentences of CoNLL-2000) blocks reach 1e-6 in 93 rounds and
#: 49 s, and pools stand at 6.5e-3 after 43 s.
BLOCK_ROUNDS, STEP_WORK = 200, 1e9


@dataclass(frozen=True)
class TemperedPools:
    """Options.

    temperature : tau of the first stage, in units of the largest node loss. shrink : its factor from stage to stage.
    steps : the most L-BFGS steps of a stage; more after poor stages.
    stages : the most stages. switch : the relative gap at which the pools take over.
    samples : labellings drawn from q for the first pools.
    seed : of the samples.
    """

    temperature: float = 0.25
    shrink: float = 0.8
    steps: int = 20
    stages: int = 40
    switch: float = 3e-4
    samples: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(
            self,
            temperature=positive,
            shrink=share,
            steps=at_least(1),
            stages=at_least(1),
            switch=positive,
            samples=at_least(0),
            seed=seed,
        )

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate at the first w, one a stage and one a round of the pools; the run ends where no labelling is
        violated beyond rounding. An `OracleSVM` is solved by the pools alone. Of ``start`` w is used, and for an
        `OracleSVM` the labellings of its witness too.

        Raises
        ------
        ValueError
            If the w of ``start`` does not fit the problem.
        """
        if isinstance(problem, OracleSVM):
            yield from pooled(problem, start)
            return
        parts = by_component(problem)
        if parts is None:
            yield from self._whole(problem, start)
            return
        for iterate in self._whole(parts, start):
            witness = iterate.dual_point
            assert witness is not None
            point = witness() if callable(witness) else witness
            yield replace(iterate, dual_point=witness_of_whole(problem, parts, point))

    def _whole(self, problem: StructuredSVM, start: Solution | None) -> Iterator[Iterate]:
        if by_blocks(problem):
            yield from blocks_then_pools(problem, start, self.seed)
            return
        temper = Temper(self, problem, start)
        yield temper.shown()
        seen: list[Labels] = [temper.labels]
        while not temper.finished:
            temper.stage()
            seen = [*seen[-3:], temper.labels]
            yield temper.shown()
        pools = LabellingPools(problem)
        samples = temper.samples(np.random.default_rng(self.seed)) if problem.oracle.summable else ()
        for labels in [*seen, *samples]:
            pools.add(labels)
        yield from finish(problem, pools, temper.best_w, temper.best, temper.calls)


def pool_work(problem: StructuredSVM) -> float:
    """Multiplications of a Newton step with `CHEAP_COLUMNS` labellings an example."""
    columns, d = CHEAP_COLUMNS * problem.n_examples, problem.dimension
    return columns * float(d) * min(columns, d)


def by_blocks(problem: StructuredSVM) -> bool:
    """Whether `pooled_blocks` begins, which needs exact best labellings, and no weight that must be >= 0."""
    if problem.features.associative or not problem.oracle.exact:
        return False
    work, sums = pool_work(problem), problem.scaling == "margin" and not problem.loss.zero_one
    return (work > CHEAP_WORK and wide(problem)) or (work > DEAR_WORK and not sums)


def blocks_then_pools(problem: StructuredSVM, start: Solution | None, seed: int) -> Iterator[Iterate]:
    """`pooled_blocks`; after `BLOCK_ROUNDS` rounds or at its end the pools take over, from its labellings, if a Newton
    step over these takes at most `STEP_WORK` multiplications."""
    best, best_w = np.inf, np.zeros(problem.dimension)
    for rounds, iterate in enumerate(pooled_blocks(problem, start, seed), start=1):
        if iterate.primal < best:
            best, best_w = iterate.primal, iterate.point["w"]
        if rounds == BLOCK_ROUNDS or iterate.done:
            witness = iterate.dual_point
            assert callable(witness)
            point = witness()
            # the Gram matrix of sparse columns costs little beside its factors
            columns = problem.n_examples + int(np.count_nonzero(point["label_shares"]))
            if float(columns) ** 2 * min(columns, problem.dimension) <= STEP_WORK:
                yield replace(iterate, done=False)
                pools = LabellingPools(problem)
                pools.adopt(point)
                yield from finish(problem, pools, best_w, best, iterate.oracle_calls)
                return
        yield iterate


def pooled(problem: OracleSVM, start: Solution | None) -> Iterator[Iterate]:
    """The pools alone, from the labellings of ``start`` and those violated at its w."""
    pools, w = LabellingPools(problem), starting_w(problem, start)
    found = problem.most_violated(w)
    pools.add(found.labels)
    if start is not None:
        pools.adopt(start.dual_point or {})
    yield from finish(problem, pools, w, found.value, 1)


def finish(
    problem: StructuredSVM | OracleSVM, pools: LabellingPools, w: Vector, best: float, calls: int
) -> Iterator[Iterate]:
    """Solve over the pools and add the most violated labellings, until none is new; yields one iterate a round.

    ``best`` is the primal value at ``w``.
    """
    bound = -np.inf
    while True:
        gap = best - max(bound, 0.0)
        tolerance = INNER_SHARE * gap
        solved = solve_pools(pools.columns(), problem.ceiling, problem.lam, w, tolerance, problem.features.nonnegative)
        w = problem.project(solved.w)
        found = problem.most_violated(w)
        calls += 1
        witness = pools.witness(solved.alpha)
        bound = max(bound, solved.bound)
        best = min(best, found.value)
        added = pools.add(found.labels, found.violation > 0)
        inner, end = solved.primal - solved.bound, EXACT_GAP * magnitude(problem, best)
        exhausted = added == 0 and (inner <= end or inner > tolerance)  # solved, or as well as rounding allows
        yield Iterate({"w": w}, witness, found.value, solved.bound, calls, done=exhausted)
        if exhausted:
            return


class Temper:
    """The state of the stages: the last w with P(w) and its most violated labels, the best w so far, and q by its
    natural parameters Theta = ``theta`` and B = ``loss``."""

    def __init__(self, options: TemperedPools, problem: StructuredSVM, start: Solution | None) -> None:
        self.options, self.problem = options, problem
        self.smooth = problem.scaling == "margin" and not problem.loss.zero_one
        self.theta, self.loss = np.zeros(problem.dimension), 0.0
        self.w = np.zeros(problem.dimension)
        if start is not None:
            self.w = problem.project(problem.as_point(start.point)["w"])
        self.tau = options.temperature * float(problem.loss.costs.max(initial=0.0))
        found = problem.most_violated(self.w)
        self.calls = 1
        self.value, self.labels = found.value, found.labels
        self.best, self.best_w = self.value, self.w
        self.bound = 0.0
        self._witness: tuple[Vector, float] | None = None
        self._gap = np.inf
        self.stages = 0
        self._steps = options.steps
        self._cheap = pool_work(problem) <= CHEAP_WORK
        self.finished = self.tau <= 0 or not problem.oracle.summable  # the loss is 0, or the oracle has no sums

    def stage(self) -> None:
        """One stage of the entropic proximal point method."""
        problem, features, tau, c = self.problem, self.problem.features, self.tau, self.problem.ceiling
        costs = problem.loss.costs
        node = features.node_scores(self.theta) + self.loss * costs
        before = problem.oracle.sums(node, features.edge_scores(self.theta)).log_partition
        new_loss = self.loss + 1.0 / tau
        bound, at = self.bound, None

        def objective(w: Vector) -> tuple[float, Vector]:
            nonlocal bound, at
            deadline.check()
            theta = self.theta + w / tau
            node = features.node_scores(theta) + new_loss * costs
            sums = problem.oracle.sums(node, features.edge_scores(theta), c)
            psi = problem.truth_joint - features.adjoint(sums.node, sums.edge)
            if self.smooth:
                value = problem.best_on_ray(psi, float((sums.node * costs).sum()))
                if value > bound:
                    bound, at = value, theta
            rise = tau * float(c @ (sums.log_partition - before))
            return 0.5 * problem.lam * float(w @ w) + rise - float(problem.truth_joint @ w), problem.lam * w - psi

        box = None
        if features.associative:
            box = scipy.optimize.Bounds(np.where(features.nonnegative, 0.0, -np.inf), np.inf)
        found = scipy.optimize.minimize(
            objective, self.w, jac=True, method="L-BFGS-B", bounds=box,
            options={"maxiter": self._steps, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        self.w = problem.project(found.x)
        self.theta, self.loss = self.theta + self.w / tau, new_loss
        self.tau *= self.options.shrink
        if at is not None:
            self.bound, self._witness = bound, (at, new_loss)
        worst = problem.most_violated(self.w)
        self.calls += int(found.nfev) + 2
        self.value, self.labels = worst.value, worst.labels
        if self.value < self.best:
            self.best, self.best_w = self.value, self.w
        self.stages += 1
        self._judge()

    def _judge(self) -> None:
        """Decide whether the stages end, and how many steps the next one has."""
        gap = self.best - self.bound
        poor = self.smooth and gap > POOR_SHARE * self._gap
        most = LONGEST_STAGE * self.options.steps
        stuck = poor and (self._cheap or self._steps >= most) if self.smooth else self.stages >= UNJUDGED_STAGES
        if poor:
            self._steps = min(2 * self._steps, most)
        near = gap <= self.options.switch * magnitude(self.problem, self.best)
        self.finished = near or stuck or self.stages >= self.options.stages
        self._gap = gap

    def samples(self, rng: np.random.Generator) -> Iterator[Labels]:
        """Labellings of all examples drawn from q."""
        features = self.problem.features
        node = features.node_scores(self.theta) + self.loss * self.problem.loss.costs
        edge = features.edge_scores(self.theta)
        for _ in range(self.options.samples):
            deadline.check()
            yield self.problem.oracle.sample(node, edge, rng)

    def shown(self) -> Iterate:
        witness: Point | None = {"labels": np.zeros((0, self.problem.features.n_nodes), dtype=np.int64)}
        if self._witness is not None:
            theta, loss = self._witness
            n = self.problem.n_examples
            witness = {"gibbs": theta[None], "gibbs_loss": np.array([loss]), "gibbs_shares": np.ones((1, n))}
        return Iterate({"w": self.w}, witness, self.value, self.bound, self.calls)
