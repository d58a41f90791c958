r"""The entropic proximal point method: the default for (P). Ours, not the paper's.

The dual of (P) is a maximisation over weights on labellings. A proximal point method in Kullback-Leibler distance
keeps weights of exponential form, q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), so that d + 1 numbers describe a dual
point, and one forward-backward pass sums over all labellings. Each stage minimises a smooth F at temperature tau
(`stage`), then Theta += theta / tau, B += 1 / tau, tau *= shrink. Unlike plain annealing (Theta = B = 0) it converges
at any tau; with tau shrinking it converges superlinearly. tau stays where smoothing cost no less than in the stages
before: stages are inexact, and theta / tau of one that ended early would leave P higher at every smaller tau.

Three ideas make it fast, and let it reach gaps of 1e-6 and far below:

* **Invariants.** Scores can move between what leads to a state and what it emits without changing any labelling's
  score: in such directions the Hessian is nearly zero and a diagonal metric is wrong by orders of magnitude. They are
  known beforehand (`invariants`), and the metric treats them exactly.
* **Newton's metric.** As tau falls, L-BFGS with such a metric still needs ever more steps. The Hessian of F is the
  covariance of the counts over tau (`covariance`). One covariance may cost hundreds of evaluations of F, but changes
  little from stage to stage: it is formed where a stage has taken a share of the steps that it costs, and used, with
  the pairs of L-BFGS that correct it, in the stages that follow. Where stages are short it is never formed.
* **Slack in v.** (mu, omega) bounds the optimum only if v = c - mu >= 0. Where a block has missing mass at the optimum,
  v_i = 0 there, and rounding makes some v_ij negative: the bound stalls. The stages therefore minimise with
  (1 - epsilon) c, which leaves v >= epsilon c at the stage's optimum and costs at most
  epsilon sum_i KL(c_i || e^theta_i); epsilon falls with the gap.

While smoothing still costs much, stages are rough: they end early, since tau is far from its last value and neither a
covariance nor v >= 0 is worth the steps there. Without a covariance v >= 0 takes hundreds of steps, P a few: so large
problems have more rough stages, at a higher tau, first, and later stages are rough too where smoothing is most of the
certified gap, and then lower P alone. Where they are not, the best mixture of their last iterates has v >= 0 long
before any of these (`mixture`), and is the dual point.

Where few labellings bind, as on noise and at large eta, smoothing takes ever more steps. `CuttingPlanes` takes over
where the certified gap has not halved in `JUDGED` stages and its masters are small, or where the stages have ended.

With many examples a pilot run on the first few of them, re-weighted, takes these stages, accurately, since its steps
are cheap: none of (Theta, B, tau, theta) has a part for each example, so the full problem starts from them, and uses
the covariance of the few, re-weighted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, flag, positive, read_options, share
from convexstruct.core.quasi_newton import Pairs
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.in_files import CountsInFiles
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.cutting_planes import CuttingPlanes, suits
from convexstruct.families.generative_margin.solvers.entropic_proximal.covariance import CountCovariance, Matrices
from convexstruct.families.generative_margin.solvers.entropic_proximal.descent import Descent, Metric
from convexstruct.families.generative_margin.solvers.entropic_proximal.diagonal import DiagonalMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.mixture import mixed
from convexstruct.families.generative_margin.solvers.entropic_proximal.newton import NewtonMetric
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import (
    Measure,
    Space,
    Stage,
    Value,
    sample,
    stage_gap,
)
from convexstruct.families.generative_margin.solvers.warm_start import starting_theta
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.part import can_part, part

#: The largest number of parameters for which a dense metric is formed: beyond, its Cholesky factor costs more than the
#: steps it saves.
LARGEST_DENSE = 2000
#: While smoothing costs more than this share of the objective a stage is rough: its metric is diagonal, and it ends
#: when `ROUGH_DECREASE` times the slope of its last step (`Descent.slope`) is below the gap asked of it.
ROUGH_COST = 1e-2
ROUGH_DECREASE = 100.0
#: In large problems stages are rough down to this share, and tau falls by this factor, or `shrink` if that is more,
#: while smoothing is less than half of the certified gap. There v >= 0 takes hundreds of steps, fewer at a higher tau:
#: many short stages at a high tau lower the cost of smoothing first, so that one long stage is enough.
LARGE_ROUGH_COST, LARGE_SHRINK = 1.5e-3, 0.9
#: With so many times the examples of a pilot run, these stand for all, and one evaluation on all is dear enough.
MANY = 20
#: Steps that a stage takes before it forms the covariance (anew), as a share of the evaluations that this costs.
WAITED_SHARE = 0.75
#: In large problems the dual point may be a mixture of so many of the last iterates of a stage (`mixture`), which is
#: looked for every `MIX_EVERY` steps.
MIXED, MIX_EVERY = 60, 5
#: The method ends if the certified gap falls by less than a twentieth over so many stages.
PATIENCE = 12
#: Cutting planes take over where the gap has not halved in so many stages, if K d^2, which a step of their masters
#: multiplies for K examples and d parameters, is below `SMALL_WORK`: some tenths of a second.
JUDGED, SMALL_WORK = 16, 1.7e7
#: A parameter that no labelling may use gets a score below 0 by so many times a bound on the scores of labellings: its
#: probability is then 0 in floating point, and for the certificate.
FORBIDDING_FACTOR = 1e3
#: Missing mass delta of each block at the start, in nats.
FIRST_DELTA = 0.05
#: The first multiplier of a limit of theta, as a share of the mean of c and eta over the parameters, and of a cap of
#: the slacks, as a share of eta w_k: it grows by a factor e for each tau by which its limit is violated.
FIRST_KAP = 0.01


@dataclass(frozen=True)
class EntropicProximal:
    """Options of the entropic proximal point method.

    temperature : tau of the first stage, as a share of the largest loss of one variable (the mean over variables, or
        one nat if that is more).
    shrink : factor of tau from stage to stage, in (0, 1); in large problems at first `LARGE_SHRINK`, if that is more.
    memory : pairs kept by L-BFGS: stages of thousands of parameters take hundreds of steps.
    inner : the duality gap of a stage is brought below this share of what smoothing costs.
    newton : whether a covariance is formed where one is known and pays; otherwise all metrics are diagonal.
    patience : the fewest steps of a stage before it forms a (new) covariance; more if that is expensive
        (`WAITED_SHARE`).
    pilot : examples of the pilot run; problems with fewer than `MANY` times as many, or with features that `part`
        cannot cut between examples, have none.
    max_steps : the most steps of one stage.
    """

    temperature: float = 0.1
    shrink: float = 0.65
    memory: int = 300
    inner: float = 0.3
    newton: bool = True
    patience: int = 8
    pilot: int = 500
    max_steps: int = 1000

    def __post_init__(self) -> None:
        read_options(
            self,
            temperature=positive,
            shrink=share,
            memory=at_least(1),
            inner=share,
            newton=flag,
            patience=at_least(1),
            pilot=at_least(0),
            max_steps=at_least(1),
        )

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate where a pilot run ends, one for each stage of all examples, and one for each master; the run ends
        where the gap is closed, or hardly fell for `PATIENCE` stages and cutting planes do not take the problem. Of
        ``start`` the theta and the last Gibbs atom of the witness are used.

        Raises
        ------
        ValueError
            If the theta of ``start`` does not fit the problem.
        """
        _takes(problem)
        run = Run(self, problem, start)
        some, large = sample(problem), 0 < MANY * self.pilot <= _many(problem)
        if problem.general is None and start is None and large and can_part(some):
            features = part(some, 0, self.pilot)
            more = float(problem.examples.weights.sum() / features.examples.weights.sum())
            few = Run(self, replace(problem, features=features, eta=problem.eta * more), None, pilot=True)
            while few.smoothing > ROUGH_COST and not few.finished:
                few.stage()
            run.adopt(few)
            yield run.shown(run.theta)  # the stages of all examples take far longer: a limit may end the first
            run.adopt_covariance(few)
        while not run.finished:
            theta = run.stage()
            over = run.hands_over
            yield replace(run.shown(theta), done=run.finished and not over)
            if over:
                for iterate in CuttingPlanes().iterate(problem):
                    yield replace(iterate, oracle_calls=round(run.calls) + iterate.oracle_calls)
                return


def _takes(problem: GenerativeMargin) -> None:
    """ValueError for the objectives that the method does not take."""
    if problem.rescaled:
        raise ValueError(
            "problem has slacks that are rescaled by the loss, wanted others: EntropicProximal sums over labellings, "
            "which would take a pass for each value of the loss; CuttingPlanes takes them"
        )


def _many(problem: GenerativeMargin) -> int:
    """How many examples there are, in files too."""
    return problem.counts.filed.n_examples if isinstance(problem.counts, CountsInFiles) else problem.n_examples


class Run:
    """The state between stages: the measure, the temperature of the next stage, x = (phi, delta), and both bounds."""

    def __init__(
        self, options: EntropicProximal, problem: GenerativeMargin, start: Solution | None, pilot: bool = False
    ) -> None:
        self.options, self.problem, self.pilot = options, problem, pilot
        self.space = Space(problem)
        self.calls = 1.0
        self.stages = 0
        self.upper = self.best = np.inf
        self.bound = -np.inf
        self.finished = False
        examples, theta = problem.examples, starting_theta(problem, start)
        # scores are logarithms, so the unit of tau is what a variable loses, but at least one nat
        unit = max(float(examples.max_loss.sum()) / max(int(examples.free.sum()), 1), 1.0)
        self.tau, natural, loss = options.temperature * unit, np.zeros(problem.dimension), 0.0
        atoms = (start.dual_point if start is not None else None) or {}
        if len(atoms.get("gibbs", ())) and float(np.sum(atoms["gibbs_shares"], axis=0).max()) > 0.5:
            natural, loss = np.array(atoms["gibbs"][-1]), float(atoms["gibbs_loss"][-1])
            self.tau = min(self.tau, options.shrink / (1.0 - options.shrink) / loss) if loss > 0 else self.tau
        self.x = np.concatenate((theta, np.maximum(-problem.layout.block_logsumexp(theta), FIRST_DELTA)))
        kap = np.full(len(self.space.limits[1]), FIRST_KAP * (problem.c.sum() + problem.eta) / problem.dimension)
        cap = np.full(problem.n_examples, FIRST_KAP)
        self.measure = Measure(natural, loss, problem.oracle.expected(natural, loss).log_partition, kap, cap)
        self._witness: Point | None = None
        self._history: list[tuple[float, float]] = []
        self._gap = self.smoothing = np.inf  # what smoothing cost at the end of the last stage; relative
        self._covariance: CountCovariance | None = None
        features = sample(problem)
        if options.newton and isinstance(features, HMMCounts) and features.n_channels == 1:
            self._covariance = CountCovariance(features) if problem.dimension <= LARGEST_DENSE else None
        self._known: Matrices | None = None  # the last covariance computed
        self._last: Metric | None = None  # of the last stage
        self._cost = np.inf  # of a covariance, in evaluations of F
        # in large problems most of the time of a step is that of reading the pairs
        self._pairs = Pairs(options.memory, len(self.x), single=problem.dimension > LARGEST_DENSE)

    @property
    def theta(self) -> Vector:
        """theta at x; (d,)."""
        layout, d = self.problem.layout, self.problem.dimension
        return np.asarray(self.x[:d] - (layout.block_logsumexp(self.x[:d]) + self.x[d:])[layout.block_of])

    def shown(self, theta: Vector) -> Iterate:
        return Iterate({"theta": theta}, self._witness, self.upper, self.bound, round(self.calls), done=self.finished)

    def adopt(self, few: Run) -> None:
        """Start where the run on the first examples ended, and evaluate both bounds there."""
        problem, natural, loss = self.problem, few.measure.theta, few.measure.loss
        expected = problem.oracle.expected(natural, loss)
        self.measure = Measure(natural, loss, expected.log_partition, few.measure.kap, self.measure.cap)
        self.tau, self.x, self.smoothing = few.tau, few.x, few.smoothing
        self._gap = few.smoothing * abs(few.best)
        self.upper = self.best = problem.evaluate(self.theta).value
        self.calls += 2 + few.calls * few.problem.n_examples / _many(problem)
        self._improve(problem.eta * (expected.counts - problem.truth_counts), problem.eta * expected.loss)

    def adopt_covariance(self, few: Run) -> None:
        """Use the covariance of the first examples for all: as a metric it is near enough."""
        if few._covariance is not None:
            at = few.measure.theta, few.measure.loss
            every = self.problem.examples.weights.sum() / few.problem.examples.weights.sum()
            self._covariance = CountCovariance(few._covariance.features, float(every))
            self._cost = few._covariance.cost(*at) * few.problem.n_examples / _many(self.problem)
            self._known = self._covariance(*at)
            self.calls += self._cost

    def stage(self) -> Vector:
        """One stage; returns its theta."""
        problem, options = self.problem, self.options
        c = (1.0 - self._epsilon()) * problem.c
        kappa = self._allowed() / (3.0 * len(problem.layout.block_sizes))  # a third of the gap over all blocks
        stage = Stage(problem, self.measure, self.tau, c, kappa, self.space)
        value = stage.at(self.x)
        if (
            len(self.space.limits[1]) or problem.capped
        ):  # e^(violation / tau) rises as tau falls: where it is too much, from inside
            inside = problem.repair({"theta": value.theta})["theta"]
            if problem.capped:
                inside = 0.5 * (inside + problem.inside)  # a repair ends at the cap, where a barrier is steep
            delta = np.maximum(-problem.layout.block_logsumexp(inside), stage.least_delta)
            value = min(value, stage.at(np.concatenate((inside, delta))), key=lambda each: each.merit)
        descent = Descent(stage, value, self._metric(stage, value), self._pairs)
        rough = self._rough
        waited, recent = 0, deque[Value](maxlen=MIXED)
        mixes = self._mixes and not rough
        for _ in range(options.max_steps):
            deadline.check()
            descent.step()
            value, waited = descent.value, waited + 1
            wanted = options.inner * min(self._gap, 0.02 * abs(value.f))
            if problem.capped:  # a slack that is many tau above its cap would make the next stage's e^(excess / tau)
                wanted = min(wanted, options.inner * self.tau * problem.eta * float(problem.examples.weights @ value.b))
            recent.append(value)
            gap = stage_gap(problem, value, self.space)
            if mixes and gap > wanted and waited % MIX_EVERY == 0:
                gap = mixed(problem, recent)[0]
            if descent.exhausted or gap <= wanted:
                break
            if rough and ROUGH_DECREASE * descent.slope <= wanted:
                break
            if waited >= options.patience and self._covariance is not None and not rough:
                if self._known is None and waited == options.patience:
                    self._cost = self._covariance.cost(*stage.natural(value))
                    self.calls += 1
                if waited >= WAITED_SHARE * self._cost:
                    more = () if value.bend is None else (value.b, value.bend)
                    self._known, waited = self._covariance(*stage.natural(value), *more), 0
                    self.calls += self._cost
                    descent.use(self._metric(stage, value))
        self._last = descent.metric
        self.calls += stage.evaluations
        self.stages += 1
        theta = value.theta if problem.general is None else problem.repair({"theta": value.theta})["theta"]
        before = self._gap
        self._note(stage, value, theta)
        if mixes:
            self._improve_by_mixture(stage, recent)
        self.measure, self.x = stage.after(value), value.x
        self._cool(before)
        self._improve(value.mu, value.omega, value)
        self._judge()
        return theta

    def _cool(self, before: float) -> None:
        """Lower tau if smoothing cost less than ``before``, the least that it cost in the stages before the last, and
        where slacks are capped: there what a stage costs is that of a repaired theta."""
        if self._gap < before or self.problem.capped:
            slow = self._large and not (self.pilot or self._smoothing_prevails)  # stages of a pilot run are long
            shrink = max(self.options.shrink, LARGE_SHRINK) if slow else self.options.shrink
            self.tau *= shrink
            self._pairs.scale(1.0 / shrink)  # the Hessian goes with 1 / tau

    def _metric(self, stage: Stage, value: Value) -> Metric:
        """Newton's metric if a covariance is known; else the last stage's diagonal one, unless that was rough."""
        if self._known is not None:
            return NewtonMetric(stage, value, self._known)
        if self._last is None or self._rough or self.pilot:
            return DiagonalMetric(stage, value)
        return self._last

    @property
    def _rough(self) -> bool:
        """Whether the next stage ends early: what smoothing cost is above `ROUGH_COST`, or in large problems above
        `LARGE_ROUGH_COST` or half of the certified gap."""
        if self.pilot or self.smoothing > (LARGE_ROUGH_COST if self._large else ROUGH_COST):
            return not self.pilot
        return self._large and self._smoothing_prevails

    @property
    def _large(self) -> bool:
        """Whether there are too many parameters for a dense metric."""
        return self.problem.dimension > LARGEST_DENSE

    @property
    def _smoothing_prevails(self) -> bool:
        """Whether what smoothing cost is more than half of the certified gap."""
        return 2.0 * self._gap > self.best - self.bound

    def _allowed(self) -> float:
        """What the next stage's own gap may be, from what smoothing cost in the last."""
        if np.isfinite(self._gap):
            return self.options.inner * min(self.options.shrink * self._gap, 0.01 * abs(self.best))
        start = self.problem.inside if self.problem.capped else self.problem.uniform()
        return self.options.inner * 0.005 * self.problem.evaluate(start).value

    def _epsilon(self) -> float:
        """epsilon, the slack in v: it costs at most two thirds of what a stage's own gap may be."""
        problem = self.problem
        if problem.general is not None and not problem.general.parameters.free.any():
            return 0.0  # v < 0 is no obstacle
        used = problem.c > 0
        divergence = float(problem.c[used] @ (np.log(problem.c[used]) - self.theta[used]))
        return float(min(1e-2, self._allowed() / (1.5 * max(divergence, 1.0))))

    def _note(self, stage: Stage, value: Value, theta: Vector) -> None:
        """Evaluate P, and estimate the cost of smoothing: eta sum_k w_k [max - tau ln E e^(./tau)]."""
        self.upper = self.problem.evaluate(theta).value
        self.calls += 1
        self.best = min(self.best, self.upper)
        f = value.f + float((stage.c - self.problem.c) @ value.theta)
        self._gap = min(self._gap, max(self.upper - f, 1e-13 * abs(f)))
        self.smoothing = self._gap / magnitude(self.problem, f)

    def _improve(self, mu: Vector, omega: float, value: Value | None = None) -> None:
        """Make the present measure, with moments (mu, omega), the witness if that raises the bound.

        If c and the truth's count of a parameter are 0, v >= 0 holds only if no labelling uses it: such parameters get
        a score so low that none does. That mu is 0 there by one way of summing is not enough: by another it may be
        1e-270.
        """
        problem, theta, loss = self.problem, self.measure.theta, self.measure.loss
        if problem.general is not None and value is not None:
            kap = value.kap[len(value.kap) - len(problem.general.parameters.limits.rows[1]) :]
            share, bound = problem.general.best_share(mu, omega, value.b, kap)
            if bound > self.bound:
                found = self._gibbs(theta[None], np.array([loss]), np.ones(1))
                self._witness, self.bound = {**found, "mass": share * value.b, "rows": share * kap}, bound
            return
        unused = (problem.c == 0) & (problem.truth_counts == 0)
        if unused.any():
            theta = theta.copy()
            longest = int(np.bincount(problem.examples.example).max())
            theta[unused] = -FORBIDDING_FACTOR * (1.0 + longest * float(np.abs(theta).max()))
            expected = problem.oracle.expected(theta, loss)
            self.calls += 1
            mu, omega = problem.eta * (expected.counts - problem.truth_counts), problem.eta * expected.loss
        share, bound = problem.best_on_segment(mu, omega)
        if bound > self.bound:
            self._witness, self.bound = self._gibbs(theta[None], np.array([loss]), np.array([share])), bound

    @property
    def _mixes(self) -> bool:
        """Whether v >= 0 takes so many steps that mixtures pay: in large problems, whose metric is diagonal."""
        return self.problem.general is None and self.problem.dimension > LARGEST_DENSE and bool(self.problem.c.all())

    def _improve_by_mixture(self, stage: Stage, values: Sequence[Value]) -> None:
        """Make the best mixture of ``values`` the witness if that raises the bound."""
        shares = mixed(self.problem, values)[1]
        mu, omega = shares @ np.stack([each.mu for each in values]), float(shares @ [each.omega for each in values])
        t, bound = self.problem.best_on_segment(mu, omega)
        if bound > self.bound:
            theta, loss = zip(*map(stage.natural, values))
            used = shares > 0
            found = self._gibbs(np.stack(theta)[used], np.array(loss)[used], t * shares[used])
            self._witness, self.bound = found, bound

    def _gibbs(self, theta: Matrix, loss: Vector, shares: Vector) -> Point:
        """Gibbs measures with parameters theta (m, d) and loss (m,), each with the same share (m,) in every example."""
        return {"gibbs": theta, "gibbs_loss": loss, "gibbs_shares": np.tile(shares[:, None], self.problem.n_examples)}

    @property
    def hands_over(self) -> bool:
        """Whether cutting planes are the better way on, after a stage (see the module)."""
        gaps = [best - bound for best, bound in self._history[-JUDGED - 1 :]]
        if self.pilot or not suits(self.problem) or gaps[-1] <= self._least_gap:
            return False
        small = self.problem.n_examples * self.problem.dimension**2 <= SMALL_WORK
        return self.finished or (small and len(gaps) > JUDGED and gaps[-1] > 0.5 * gaps[0])

    @property
    def _least_gap(self) -> float:
        """What rounding leaves of a gap."""
        return 1e-13 * magnitude(self.problem, self.best)

    def _judge(self) -> None:
        """Set ``finished`` if the gap is closed, it hardly fell for `PATIENCE` stages, or 400 stages passed."""
        self._history.append((self.best, self.bound))
        gap = self.best - self.bound
        if gap <= self._least_gap or self.stages >= 400:
            self.finished = True
        elif len(self._history) > PATIENCE:
            best, bound = self._history[-PATIENCE - 1]
            before = best - bound
            self.finished = bool(np.isfinite(before) and before - gap <= 0.05 * before)
