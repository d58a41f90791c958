r"""Column generation over pools of labellings: the default solver for structural SVMs. Ours, from known parts.

**Pools.** Each example has a pool of labellings. The problem restricted to the pools is solved (`restricted_master`),
its dual point is also one of the whole problem, and the most violated labellings at its w are added, until none of them
is new.

**The start.** Where sums over labellings cost no more than exact pools, `tempering` comes first: its last most violated
labellings, and samples of its distributions, are the first pools. It ends at one of the gaps `SWITCHES`, the earlier
the cheaper the pools are. On a few nodes pools alone are faster, and it follows them where rounding has stopped them.
Examples of several components are split first (`components`).

Where the examples lie in files, it is all there is, first on a sample of them: its state has the size of w.

**The restricted master** is solved exactly, by an interior point method, where there are more columns than weights, or
few of them. Else by ascent, an example at a time (`blocks`). The ascent
begins at once where data are wide and sparse and exact pools dear: there L-BFGS makes hardly any progress, since some
features are very frequent and others very rare; and where the scaling or the loss has no sums and pools are dearer yet.
Each hands over to the other once: exact pools where their columns have become too many, the ascent where it has ended,
or after `BLOCK_ROUNDS` rounds, if its labellings are few enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, seed
from convexstruct.core.solution import Solution
from convexstruct.core.tempering import beginning
from convexstruct.families.structured_svm.in_files import sampled
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.column_generation.blocks import Ascent, ascend
from convexstruct.families.structured_svm.solvers.column_generation.components import by_component, witness_of_whole
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools
from convexstruct.families.structured_svm.solvers.column_generation.restricted_master import EXACT_GAP, solve_pools
from convexstruct.families.structured_svm.solvers.column_generation.tempering import LabellingTemper
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.features.graphs.feature_sizes import even
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.inference.exact import TreeInference

#: The problem restricted to the pools is solved to this share of the remaining gap: the next labellings change it
#: anyway.
INNER_SHARE = 0.1
#: Exact pools are cheap if a Newton step with `CHEAP_COLUMNS` labellings an example takes fewer multiplications; a
#: round takes about 15 such steps, and a second.
CHEAP_WORK, CHEAP_COLUMNS = 1.3e9, 8
#: The gap at which tempering ends: where pools are cheap, and there are at most `FEW_NODES` nodes or `FEW_WEIGHTS`
#: weights; where pools are cheap; else. As late as there where an example has more than `LONG` nodes: a round of the
#: pools adds one labelling an example.
SWITCHES, FEW_NODES, FEW_WEIGHTS, LONG = (3e-2, 3e-3, 3e-4), 1000, 128, 100
#: At most so many nodes are tempered only where rounding stops the pools: three stages take as long as all rounds.
TINY_NODES = 50
#: So many nodes are labelled by the samples in the first pools, within these bounds for the samples of an example: on
#: small problems they spare rounds, and cost next to nothing.
SAMPLED, SAMPLES = 8000, (8, 50)
#: Above so many multiplications the ascent begins where the scaling or the loss has no sums over labellings.
DEAR_WORK = 2e10
#: After so many rounds of the ascent exact pools take over if a Newton step over its labellings takes at most
#: `STEP_WORK` multiplications: a thousand labellings, a second a round. Where features differ much in size the ascent
#: needs them.
BLOCK_ROUNDS, STEP_WORK = 200, 1e9
#: Exact pools hand over to the ascent where they have fewer columns than weights, and a Newton step over them takes
#: more multiplications than this: that of some 450 columns, whose number still grows.
GROWN_WORK = 1e8


@dataclass(frozen=True)
class ColumnGeneration:
    """steps : the most L-BFGS steps of a stage of tempering; more after poor stages. stages : the most stages, 0 for no
    tempering. seed : of the samples for the first pools, and of the order of examples."""

    steps: int = 20
    stages: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, steps=at_least(1), stages=at_least(0), seed=seed)

    def iterate(self, problem: StructuredSVM | OracleSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate at the first w, one a stage and one a round of the pools; the run ends where no labelling is
        violated beyond rounding. An `OracleSVM` is solved by the pools alone. Of ``start`` w is used, and without
        tempering the labellings of its witness too. ValueError if that w does not fit the problem."""
        if isinstance(problem, OracleSVM):
            yield from self._pooled(problem, start)
            return
        if isinstance(problem.features, FiledFeatures):
            long = self.steps, self.stages
            first = LabellingTemper(sampled(problem), start, *long, 0.0, patient=True, fast=True)
            begin = beginning(first, start)
            temper = LabellingTemper(problem, start, *long, 0.0, patient=True, at=begin, fast=True)
            while not temper.finished:
                yield temper.shown()
                temper.stage()
            yield replace(temper.shown(), done=True, message="tempering alone goes no further; pools need all examples")
            return
        split = by_component(problem)
        if split is None:
            yield from self._whole(problem, start)
            return
        for iterate in self._whole(split, start):
            assert iterate.dual_point is not None
            witness = partial(witness_of_whole, problem, split, iterate.dual_point)
            yield replace(iterate, dual_point=witness)

    def _whole(self, problem: StructuredSVM, start: Solution | None) -> Iterator[Iterate]:
        work = pool_work(problem)
        if by_blocks(problem):
            run = Ascent(problem, np.random.default_rng(self.seed))
            if start is not None:
                run.adopt(start.dual_point or {})
            yield from blocks_then_pools(run, starting_w(problem, start), start is not None)
            return
        cheap = work <= CHEAP_WORK
        if not (self.stages and tempered(problem, cheap)):
            yield from self._pooled(problem, start)
            return
        nodes = problem.features.n_nodes
        if cheap and nodes <= TINY_NODES:
            for iterate in self._pooled(problem, start):
                stopped = iterate.done and bool(iterate.message)
                yield replace(iterate, done=False, message="") if stopped else iterate
            if not stopped:
                return
        late = not cheap or nodes > LONG * problem.n_examples
        few = nodes <= FEW_NODES or problem.dimension <= FEW_WEIGHTS
        switch = SWITCHES[2 if late else 0 if few else 1]
        temper = LabellingTemper(problem, start, self.steps, self.stages, switch, patient=not cheap)
        yield temper.shown()
        seen: list[Labels] = [temper.labels]
        while not temper.finished:
            temper.stage()
            seen = [*seen[-3:], temper.labels]
            yield temper.shown()
        pools, rng = LabellingPools(problem), np.random.default_rng(self.seed)
        for labels in [*seen, *temper.samples(int(np.clip(SAMPLED / nodes, *SAMPLES)), rng)]:
            pools.add(labels)
        yield from self._finish(problem, pools, temper.best_w, temper.best, temper.calls)

    def _pooled(self, problem: StructuredSVM | OracleSVM, start: Solution | None) -> Iterator[Iterate]:
        """The pools alone, from the labellings of ``start`` and those violated at its w."""
        pools, w = LabellingPools(problem), starting_w(problem, start)
        violated = problem.most_violated(w)
        pools.add(violated.labels)
        if start is not None:
            pools.adopt(start.dual_point or {})
        yield from self._finish(problem, pools, w, violated.value, 1)

    def _finish(
        self, problem: StructuredSVM | OracleSVM, pools: LabellingPools, w: Vector, best: float, calls: int
    ) -> Iterator[Iterate]:
        """`finish`, and the ascent where the columns become too many."""
        if not (isinstance(problem, StructuredSVM) and ascends(problem)):
            yield from finish(problem, pools, w, best, calls)
            return
        run: Ascent | None = None
        for iterate in finish(problem, pools, w, best, calls):
            yield iterate
            best, w = min((best, w), (iterate.primal, iterate.point["w"]), key=lambda pair: pair[0])
            columns = pools.n_columns
            if not iterate.done and columns < problem.dimension and step_work(problem, columns) > GROWN_WORK:
                assert callable(iterate.dual_point)
                run = Ascent(problem, np.random.default_rng(self.seed))
                run.adopt(iterate.dual_point())
                break
        if run is not None:
            yield from ascend(run, w, shown=False)


def pool_work(problem: StructuredSVM) -> float:
    """Multiplications of a Newton step with `CHEAP_COLUMNS` labellings an example."""
    columns, d = CHEAP_COLUMNS * problem.n_examples, problem.dimension
    return columns * float(d) * min(columns, d)


def step_work(problem: StructuredSVM, columns: int) -> float:
    """Multiplications of a Newton step over so many labellings, whose Gram matrix is there."""
    return float(columns) ** 2 * min(columns, problem.dimension)


def ascends(problem: StructuredSVM) -> bool:
    """Whether the ascent serves: it needs exact best labellings, no weight that must be >= 0, and features that do not
    differ much in size, since else, an example at a time, it hardly moves."""
    return not problem.oracle.relaxed and not problem.features.associative and even(problem.features)


def tempered(problem: StructuredSVM, cheap: bool) -> bool:
    """Whether sums over labellings are there, and cost less than pools: on junction trees they go through all
    labellings of a clique, as often as tempering has steps."""
    return problem.oracle.summable and not (cheap and isinstance(problem.oracle, TreeInference))


def by_blocks(problem: StructuredSVM) -> bool:
    """Whether the ascent comes first: exact pools are dear, and columns have few of all weights and few of another's;
    or there are no sums over labellings, and pools are dearer yet."""
    work, sums = pool_work(problem), problem.scaling == "margin" and not problem.loss.zero_one
    sparse = sp.issparse(problem.features.node_features) and problem.dimension > problem.features.n_nodes
    return ascends(problem) and ((work > CHEAP_WORK and sparse) or (work > DEAR_WORK and not sums))


def blocks_then_pools(run: Ascent, w: Vector, shown: bool) -> Iterator[Iterate]:
    """The ascent; after `BLOCK_ROUNDS` rounds or at its end the pools take over, from its labellings, if a Newton step
    over these takes at most `STEP_WORK` multiplications."""
    problem, best = run.problem, np.inf
    for rounds, iterate in enumerate(ascend(run, w, shown), start=1):
        if iterate.primal < best:
            best, w = iterate.primal, iterate.point["w"]
        if rounds == BLOCK_ROUNDS or iterate.done:
            witness = iterate.dual_point
            assert callable(witness)
            point = witness()
            if step_work(problem, problem.n_examples + int(np.count_nonzero(point["label_shares"]))) <= STEP_WORK:
                yield replace(iterate, done=False)
                pools = LabellingPools(problem)
                pools.adopt(point)
                yield from finish(problem, pools, w, best, iterate.oracle_calls)
                return
        yield iterate


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
        w, pools.alpha = problem.project(solved.w), solved.alpha
        violated = problem.most_violated(w)
        calls += 1
        witness = pools.witness(solved.alpha)
        bound = max(bound, solved.bound)
        best = min(best, violated.value)
        added = pools.add(violated.labels, violated.violation > 0)
        inner, end = solved.primal - solved.bound, EXACT_GAP * magnitude(problem, best)
        exhausted = added == 0 and (inner <= end or inner > tolerance)  # solved, or as well as rounding allows
        message = ""
        if exhausted and inner > end:
            message = f"rounding ends the quadratic program over the pools at a gap of {inner:.1e}"
            if not np.isfinite(inner):
                message = "products of the features overflow"
            if isinstance(problem, StructuredSVM):
                message += f"; {problem.rounding_reason({}, None)}"
        yield Iterate({"w": w}, witness, violated.value, solved.bound, calls, done=exhausted, message=message)
        if exhausted:
            return
