r"""The entropic proximal point method with an exact Newton finish: the fast default for (P). Ours, not the paper's.

The dual of (P) is a maximisation over weights on labellings. A proximal point method in Kullback-Leibler distance
keeps weights of exponential form, q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), so that a point of the dual is d + 1
numbers and one forward-backward sums over all labellings. Each stage minimises a smooth F at temperature tau
(`solvers.entropic_stage`), then Theta += theta / tau, B += 1 / tau, tau *= shrink. Unlike plain annealing
(Theta = B = 0) it converges at any tau; with tau shrinking it converges superlinearly.

Three things make it fast, and exact to 1e-6 and far beyond:

* **Invariants.** Scores can move between what leads to a state and what it emits without changing any labelling's
  score: in such directions the Hessian is nearly zero and a diagonal metric is wrong by orders of magnitude. They are
  known beforehand (`invariants`), and the metric treats them exactly.
* **Newton's metric.** As tau falls, L-BFGS with such a metric still needs ever more steps. The Hessian of F is the
  covariance of the counts over tau, and a backward recursion computes it exactly on chains. It costs tens to hundreds
  of evaluations, but changes little from stage to stage: one covariance serves many stages, and so do the pairs of
  L-BFGS, which mend it.
* **Slack in v.** (mu, omega) bounds the optimum only if v = c - mu >= 0. Where a block has missing mass at the optimum,
  v_i = 0 there, and rounding makes some v_ij negative: the bound stalls. The stages therefore minimise with
  (1 - epsilon) c, which leaves v >= epsilon c at the stage's optimum and costs at most
  epsilon sum_i KL(c_i || e^theta_i); epsilon falls with the gap.

The first stages are rough: with tau far from its end, neither a covariance nor v >= 0 is worth waiting for. Where the
dimension forbids covariances, only the first one is: there is nothing to mend what rough stages leave, and v >= 0 is
cheapest to reach while tau is high.

With many examples a pilot run on the first few of them, re-weighted, finds (Theta, B, tau, theta): they belong to no
example, so the full problem goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, not_below, positive, read_options, share
from convexstruct.core.quasi_newton import Pairs
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.covariance import CountCovariance
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.entropic_stage import (
    Descent,
    DiagonalMetric,
    Measure,
    Metric,
    NewtonMetric,
    Stage,
    Value,
    stage_gap,
)
from convexstruct.features.counts.bounds import shared_columns
from convexstruct.features.counts.part import part

#: Parameters beyond which no dense metric is formed (its Cholesky factor would cost more than the steps it saves), and
#: beyond which none is estimated from a sample of the examples.
LARGEST_DENSE = 2000
LARGEST_SAMPLED = 1000
#: A stage is rough while smoothing costs more than this share of the objective: where a covariance mends later what a
#: rough stage leaves, and where none does (there in the first stage alone, where the cost is not known yet: inf).
ROUGH = 1e-2
ROUGH_DIAGONAL = 1e9
#: A rough stage ends when this many times the decrease that its step promised is below the gap asked of it.
ROUGH_DECREASE = 100.0
#: (shrink, inner) where no covariance is formed: a stage costs many steps at any temperature, so few and loose ones.
DIAGONAL_ONLY = (0.5, 0.6)
#: With many examples a covariance is made from a sample that costs this many evaluations of F at most.
SAMPLE_COST = 2.5
#: Steps in one metric after which a covariance is formed at the latest, whatever it costs.
LONGEST_WAIT = 100
#: Added to the diagonal of the covariance, as a share of the counts: where it comes from an earlier stage, and where it
#: is estimated from samples.
RIDGE = 1e-3
SAMPLED = 0.05
#: Steps in a metric that is only an estimate before it is formed anew: L-BFGS needs time to collect its pairs.
REFRESH = 40
#: The pilot run ends when smoothing costs less than this share of the objective.
PILOT = 1e-2
#: Where the lower bound has fallen behind the smoothing, a stage's gap may be this share of the certified gap, and at
#: most so many times the cost of smoothing.
OF_CERTIFIED = 0.1
OF_SMOOTHING = 3.0
#: Stages over which the certified gap must fall by a twentieth; otherwise the method has nothing left to try.
PATIENCE = 12
#: Sweeps of iterative scaling for one bound.
SWEEPS = 8
#: Expected counts of a column that c rules out may differ from the truth's by this much in all, in uses weighted by
#: the examples' weights, and still be taken for equal: the certificate corrects that much.
BALANCE = 1e-6
#: A parameter that no labelling may use gets a score so many times as far below the others as they are apart: its
#: probability is 0 then, in floating point and as it is declared to the certificate.
NEVER = 1e3
#: Missing mass delta of each block at the start, in nats.
DELTA = 0.05
#: theta, in nats, that stands for -inf in a start (a probability of 0).
FLOOR = -60.0


@dataclass(frozen=True)
class EntropicProximal:
    """Options of the entropic proximal point method.

    temperature : tau of the first stage, as a share of what one variable can lose (their mean, or one nat if that is
        more).
    shrink : factor of tau from stage to stage, in (0, 1); at most `DIAGONAL_ONLY` where no covariance is formed.
    memory : pairs kept by L-BFGS.
    inner : the duality gap of a stage is brought below this share of what smoothing costs; at least that of
        `DIAGONAL_ONLY` where no covariance is formed.
    newton : operations that one covariance may cost; examples are left out to meet it. 0: diagonal metrics only.
    patience : steps in one metric at least before the covariance is formed (again) within a stage; more where it costs
        more.
    pilot : examples of the pilot run; none is made for fewer than four times as many.
    max_steps : steps of one stage.
    """

    temperature: float = 0.1
    shrink: float = 0.65
    memory: int = 150
    inner: float = 0.3
    newton: float = 6e10
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
            newton=not_below(0),
            patience=at_least(1),
            pilot=at_least(0),
            max_steps=at_least(1),
        )

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        state = _State.begin(problem, self._first(problem), self.shrink, start)
        calls = 1.0
        pilot_run: _Run | None = None
        if start is None and self.pilot and problem.n_examples >= 4 * self.pilot:
            small = _first_examples(problem, self.pilot)
            state = _State.begin(small, self._first(small), self.shrink, None)
            run = _Run(self, small, state, rough=False)
            while run.smoothing > PILOT and run.stages < 40:
                for _ in run.stage():
                    pass
            calls += run.calls * self.pilot / problem.n_examples
            state = run.state.adopted_by(problem)
            pilot_run = run
        run = _Run(self, problem, state)
        if pilot_run is not None:
            run.follow(pilot_run)
            yield run.shown(run.look(), calls)
        while not run.finished:
            for theta in run.stage():
                yield run.shown(theta, calls)

    def _first(self, problem: GenerativeMargin) -> float:
        """tau of the first stage: scores are logarithms, so the unit is what a variable loses, but at least one nat."""
        features = problem.features
        return self.temperature * max(float(features.max_loss.sum()) / max(int(features.free.sum()), 1), 1.0)


@dataclass
class _State:
    """Where the method stands: the measure, the temperature of the next stage, and x = (phi, delta)."""

    measure: Measure
    tau: float
    x: Vector

    @classmethod
    def begin(cls, problem: GenerativeMargin, tau: float, shrink: float, start: Solution | None) -> _State:
        d = problem.dimension
        theta, natural, loss = problem.uniform(), np.zeros(d), 0.0
        if start is not None:
            given = np.nan_to_num(problem.as_point(start.point)["theta"], nan=FLOOR, neginf=FLOOR)
            theta = problem.shift(np.maximum(given, FLOOR))
            atoms = start.dual_point or {}
            if len(atoms.get("gibbs", ())) and float(np.max(atoms["gibbs_shares"][-1])) > 0.5:
                natural, loss = np.array(atoms["gibbs"][-1]), float(atoms["gibbs_loss"][-1])
                tau = min(tau, shrink / (1.0 - shrink) / loss) if loss > 0 else tau
        x = np.concatenate((theta, np.maximum(-problem.layout.block_logsumexp(theta), DELTA)))
        return cls(_measure(problem, natural, loss), tau, x)

    def adopted_by(self, problem: GenerativeMargin) -> _State:
        return _State(_measure(problem, self.measure.theta, self.measure.loss), self.tau, self.x)


def _measure(problem: GenerativeMargin, natural: Vector, loss: float) -> Measure:
    expected = problem.features.expected(natural, loss)
    return Measure(natural, loss, float(problem.features.weights @ expected.log_partition))


def _first_examples(problem: GenerativeMargin, n: int) -> GenerativeMargin:
    """The problem of the first n examples, weighted as if they were all."""
    features = part(problem.features, 0, n)
    more = float(problem.features.weights.sum() / features.weights.sum())
    return GenerativeMargin(features, problem.c, problem.eta * more)


class _Run:
    """Stages on one problem."""

    def __init__(self, options: EntropicProximal, problem: GenerativeMargin, state: _State, rough: bool = True) -> None:
        self.options, self.problem, self.state, self.rough = options, problem, state, rough
        self.calls = 0.0
        self.stages = 0
        self.upper = self.best = np.inf
        self.smoothing = np.inf  # what smoothing cost at the end of the last stage, relative
        self.finished = False
        self._witness: tuple[Vector, float, float] | None = None  # (Theta, B, its share in every example)
        self._bound = -np.inf
        self._history: list[tuple[float, float]] = []
        self._gap = np.inf
        self._dense = False
        self._covariance = self._choose_covariance()
        self.shrink, self.inner = options.shrink, options.inner
        if self._covariance is None:
            self.shrink, self.inner = min(self.shrink, DIAGONAL_ONLY[0]), max(self.inner, DIAGONAL_ONLY[1])
        self._known: Vector | None = None  # the last covariance computed
        self._pairs = Pairs(options.memory, problem.dimension + len(problem.layout.block_sizes))
        self._pairs_tau = state.tau

    def follow(self, pilot: _Run) -> None:
        """Start where a pilot run ended: near enough for Newton's metric, with its figure for the cost of smoothing."""
        self._dense = self._covariance is not None
        self.smoothing = pilot.smoothing
        self._gap = self.smoothing * abs(pilot.best)

    def _choose_covariance(self) -> tuple[CountCovariance, float, float] | None:
        """(covariance, its share of the examples' weight, its cost in evaluations), or None if it would not pay."""
        problem, d = self.problem, self.problem.dimension
        if self.options.newton <= 0 or d > LARGEST_DENSE:
            return None
        whole = CountCovariance(problem.features)
        each = d**1.5 / 200.0  # measured on chains: one example's covariance against one example's forward-backward
        share = self.options.newton / whole.operations
        examples = int(share * problem.n_examples)
        if self.options.pilot and problem.n_examples >= 4 * self.options.pilot:  # a sample is near enough, and cheaper
            examples = min(examples, max(self.options.pilot, int(problem.n_examples * SAMPLE_COST / each)))
        if examples >= problem.n_examples:
            return whole, 1.0, each
        if d > LARGEST_SAMPLED:
            return None
        few = part(problem.features, 0, max(examples, 1))
        portion = float(few.weights.sum() / problem.features.weights.sum())
        return CountCovariance(few), portion, each * few.n_examples / problem.n_examples

    def stage(self) -> Iterator[Vector]:
        """One stage: yields theta now and then, so that limits can act, and at its end, moved on."""
        problem, options, state = self.problem, self.options, self.state
        c = (1.0 - self._epsilon(state)) * problem.c
        kappa = self._barrier(state)
        stage = Stage(problem, state.measure, state.tau, c, kappa)
        value = stage.at(state.x)
        dense = self._dense
        # without a dense metric to make up for it later, a stage that ends early sends the next astray
        rough = self.rough and self.smoothing > (ROUGH if self._covariance is not None else ROUGH_DIAGONAL)
        self._pairs.scale(self._pairs_tau / state.tau)  # the Hessian goes with 1 / tau
        self._pairs_tau = state.tau
        descent = Descent(stage, value, self._metric(stage, value, dense, self._known), self._pairs)
        since = 0
        cost = 0.0 if self._covariance is None else self._covariance[2]
        patience = max(options.patience, min(round(0.6 * cost), LONGEST_WAIT))
        for steps in range(1, options.max_steps + 1):
            deadline.check()
            descent.step()
            since += 1
            value = descent.value
            if descent.exhausted or stage_gap(problem, value) <= self._wanted(value):
                break
            if rough and ROUGH_DECREASE * descent.slope <= self.inner * min(self._gap, 0.02 * abs(value.f)):
                break
            if self._covariance is not None and not dense and not rough and steps >= patience:
                dense, since = True, patience
            exact = dense and self._covariance is not None and self._covariance[1] == 1.0
            if since >= (patience if exact else REFRESH):
                since = 0
                self.upper = problem.evaluate(value.theta).value
                self.calls += 1
                self.best = min(self.best, self.upper)
                yield value.theta
                if dense:
                    descent.use(self._metric(stage, value, dense, None))
        self._dense = dense
        self.calls += stage.evaluations
        self.stages += 1
        self._note(stage, value)
        self.state = _State(stage.after(value), state.tau * self.shrink, value.x)
        self.improve(value.mu, value.omega)
        self.judge()
        yield value.theta

    def judge(self) -> None:
        """Stop where nothing is left to gain: the bounds meet, or have not moved for PATIENCE stages."""
        scale = magnitude(self.problem, self.best)
        self._history.append((self.best, self._bound))
        if self.best - self._bound <= 1e-13 * scale or self.stages >= 400:
            self.finished = True
        elif len(self._history) > PATIENCE:
            best, bound = self._history[-PATIENCE - 1]
            before = best - bound
            self.finished = bool(np.isfinite(before) and before - (self.best - self._bound) <= 0.05 * before)

    def _metric(self, stage: Stage, value: Value, dense: bool, known: Vector | None) -> Metric:
        """The stage's metric, by a covariance that is ``known`` or a new one."""
        if not dense or self._covariance is None:
            return DiagonalMetric(stage, value)
        covariance, portion, cost = self._covariance
        if known is not None:
            return NewtonMetric(stage, value, known, RIDGE if covariance.exact else SAMPLED)
        self.calls += cost
        new, loss = stage.measure.theta + value.theta / stage.tau, stage.measure.loss + 1.0 / stage.tau
        if portion == 1.0:
            self._known = covariance(new, loss)
            return NewtonMetric(stage, value, self._known, 1e-7 if covariance.exact else SAMPLED)
        few = covariance.features.expected(new, loss).counts / portion
        level = 1e-3 * float(few.mean())
        scale = np.sqrt((value.expected.counts + level) / (few + level))
        self._known = covariance(new, loss) * (scale[:, None] * scale / portion)
        return NewtonMetric(stage, value, self._known, 1e-4)

    def _wanted(self, value: Value) -> float:
        """The stage's own gap at which it ends: a share of what smoothing costs, by the last stage's figure."""
        certified = self.best - self._bound if np.isfinite(self._bound) else 0.0
        cost = max(self._gap, min(OF_CERTIFIED * certified, OF_SMOOTHING * self._gap))
        return self.inner * min(cost, 0.02 * abs(value.f))

    def _epsilon(self, state: _State) -> float:
        """The slack in v: costs at most a third of what a stage's own gap may be."""
        problem = self.problem
        d = problem.dimension
        theta = state.x[:d] - (problem.layout.block_logsumexp(state.x[:d]) + state.x[d:])[problem.layout.block_of]
        used = problem.c > 0
        divergence = float(problem.c[used] @ (np.log(problem.c[used]) - theta[used]))
        return float(min(1e-2, self._allowed(state) / (3.0 * max(divergence, 1.0))))

    def _allowed(self, state: _State) -> float:
        """What the next stage's own gap may be, from what smoothing cost in the last."""
        if np.isfinite(self._gap):
            certified = self.best - self._bound if np.isfinite(self._bound) else 0.0
            cost = max(self.shrink * self._gap, OF_CERTIFIED * certified)
            return self.inner * min(cost, 0.01 * abs(self.best))
        return self.inner * 0.005 * self.problem.evaluate(self.problem.uniform()).value

    def _barrier(self, state: _State) -> float:
        """kappa: what it costs over all blocks is a third of what a stage's own gap may be."""
        return self._allowed(state) / (3.0 * len(self.problem.layout.block_sizes))

    def _note(self, stage: Stage, value: Value) -> None:
        """What smoothing costs at the end of a stage: eta sum_k w_k [max - tau ln E e^(./tau)]."""
        self.upper = self.problem.evaluate(value.theta).value
        self.calls += 1
        self.best = min(self.best, self.upper)
        f = value.f + float((stage.c - self.problem.c) @ value.theta)
        self._gap = min(self._gap, max(self.upper - f, 1e-13 * abs(f)))
        self.smoothing = self._gap / magnitude(self.problem, f)

    def improve(self, mu: Vector, omega: float) -> None:
        """Keep a measure near the present one, whose moments are (mu, omega), as the witness if it raises the bound."""
        theta, loss, mu, omega = self._scaled(mu, omega)
        share, bound = self.problem.best_on_segment(mu, omega)
        if bound > self._bound:
            self._witness, self._bound = (theta, loss, share), bound

    def _scaled(self, mu: Vector, omega: float) -> tuple[Vector, float, Vector, float]:
        """A Gibbs measure near the present one with v >= 0, by iterative scaling; it, and its (mu, omega).

        Where v_j < 0 the expected count n_j of parameter j is too large; Theta_j += ln(target / n_j) brings it down,
        for a parameter that is used seldom in one sweep. A Gibbs measure is a witness whatever Theta is.
        """
        problem, features = self.problem, self.problem.features
        theta, loss = self.state.measure.theta, self.state.measure.loss
        ceiling = problem.c + problem.eta * problem.truth_counts
        unused = ceiling == 0  # c and the truth are 0: v >= 0 asks for labellings that never use it
        if (mu[unused] > 0).any():
            theta = theta.copy()
            longest = int(np.bincount(features.example).max())
            theta[unused] = -NEVER * (1.0 + longest * float(np.abs(theta).max()))
            expected = features.expected(theta, loss)
            self.calls += 1
            mu, omega = problem.eta * (expected.counts - problem.truth_counts), problem.eta * expected.loss
        mu = self._balanced(mu)
        for _ in range(SWEEPS):
            deadline.check()
            count = mu + problem.eta * problem.truth_counts
            excess = (mu > problem.c) & (count > 0) & ~unused
            if not excess.any():
                break
            theta = theta.copy()
            theta[excess] += np.log(np.maximum(ceiling[excess] * (1.0 - 1e-3) / count[excess], 1e-12))
            expected = features.expected(theta, loss)
            self.calls += 1
            mu = self._balanced(problem.eta * (expected.counts - problem.truth_counts))
            omega = problem.eta * expected.loss
        return theta, loss, mu, omega

    def _balanced(self, mu: Vector) -> Vector:
        """mu, 0 where mu <= c asks for mu = 0 and it is as good as that: the certificate makes it so (`_balanced` of
        `rounding`), at a cost in proportion to what was missing."""
        mu = mu.copy()
        for column in shared_columns(self.problem.features):
            if not self.problem.c[column].any() and np.abs(mu[column]).sum() <= BALANCE * self.problem.eta:
                mu[column] = 0.0
        return mu

    def look(self) -> Vector:
        """theta where the pilot run ended, with its bounds on the whole problem."""
        problem, d = self.problem, self.problem.dimension
        x = self.state.x
        theta = x[:d] - (problem.layout.block_logsumexp(x[:d]) + x[d:])[problem.layout.block_of]
        self.upper = self.best = problem.evaluate(theta).value
        expected = problem.features.expected(self.state.measure.theta, self.state.measure.loss)
        self.calls += 2
        mu = problem.eta * (expected.counts - problem.truth_counts)
        self.improve(mu, problem.eta * expected.loss)
        return np.asarray(theta)

    def shown(self, theta: Vector, calls: float) -> Iterate:
        return Iterate(
            point={"theta": theta},
            dual_point=self.witness(),
            primal=self.upper,
            lower_bound=self._bound,
            oracle_calls=round(calls + self.calls),
            done=self.finished,
        )

    def witness(self) -> Point | None:
        if self._witness is None:
            return None
        theta, loss, share = self._witness
        shares = np.full((1, self.problem.n_examples), share)
        return {"gibbs": theta[None], "gibbs_loss": np.array([loss]), "gibbs_shares": shares}
