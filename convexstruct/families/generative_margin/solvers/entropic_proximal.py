r"""The entropic proximal point method with an exact Newton finish: the fast default for (P). Ours, not the paper's.

The dual of (P) is a maximisation over weights on labellings. A proximal point method in Kullback-Leibler distance
keeps weights of exponential form, q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), so that d + 1 numbers describe a dual
point, and one forward-backward pass sums over all labellings. Each stage minimises a smooth F at temperature tau
(`solvers.entropic_stage`), then Theta += theta / tau, B += 1 / tau, tau *= shrink. Unlike plain annealing
(Theta = B = 0) it converges at any tau; with tau shrinking it converges superlinearly.

Three ideas make it fast, and let it reach gaps of 1e-6 and far below:

* **Invariants.** Scores can move between what leads to a state and what it emits without changing any labelling's
  score: in such directions the Hessian is nearly zero and a diagonal metric is wrong by orders of magnitude. They are
  known beforehand (`invariants`), and the metric treats them exactly.
* **Newton's metric.** As tau falls, L-BFGS with such a metric still needs ever more steps. The Hessian of F is the
  covariance of the counts over tau, and a backward recursion computes it on chains. It costs tens to hundreds of
  evaluations, but changes little from stage to stage: one covariance is used in many stages, and so are the pairs of
  L-BFGS, which correct it.
* **Slack in v.** (mu, omega) bounds the optimum only if v = c - mu >= 0. Where a block has missing mass at the optimum,
  v_i = 0 there, and rounding makes some v_ij negative: the bound stalls. The stages therefore minimise with
  (1 - epsilon) c, which leaves v >= epsilon c at the stage's optimum and costs at most
  epsilon sum_i KL(c_i || e^theta_i); epsilon falls with the gap.

The first stages are rough: they end early, since tau is far from its last value and neither a covariance nor v >= 0 is
worth the steps there. If no covariance can be formed, only the first stage is rough: only Newton's metric could later
make up for the inexact ends of more, and v >= 0 takes the fewest steps while tau is high.

With many examples a pilot run on the first few of them, re-weighted, finds (Theta, B, tau, theta). None of these has a
part for each example, so the full problem starts from them. No stage of a pilot run is rough: its steps are cheap, and
each that it saves is one on all examples. The covariance is that of these few, re-weighted, too: as a metric it is near
enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Vector
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
from convexstruct.families.generative_margin.solvers.warm_start import starting_theta
from convexstruct.features.counts.part import can_part, part

#: The largest number of parameters for which a dense metric is formed: beyond, its Cholesky factor costs more than the
#: steps it saves.
LARGEST_DENSE = 2000
#: While smoothing costs more than this share of the objective a stage is rough: its metric is diagonal, and it ends
#: when `ROUGH_DECREASE` times the slope of its last step (`Descent.slope`) is below the gap asked of it. If none can
#: form a covariance, the first stage alone is rough. A pilot run, whose stages are not rough, ends at this share.
ROUGH_COST = 1e-2
ROUGH_DECREASE = 100.0
#: Added to the diagonal of the covariance, as a share of the counts: where it was computed at this point, from all
#: examples or from a sample of them, and where it comes from an earlier stage.
RIDGE, SAMPLE_RIDGE, OLD_RIDGE = 1e-7, 1e-4, 1e-3
#: Where all metrics are diagonal, P is evaluated every so many steps of a stage, and the driver checks its limits.
EVALUATION_STEPS = 40
#: Steps that a stage takes before it forms the covariance (anew), as a share of the evaluations that this costs.
WAITED_SHARE = 0.75
#: (shrink, inner) where no covariance is formed: a stage then takes many steps at any temperature, so there are fewer
#: stages, each solved less accurately.
DIAGONAL_ONLY = (0.5, 0.6)
#: If the certified gap is far above the cost of smoothing, a stage's gap is measured by this share of the certified
#: gap instead of that cost.
CERTIFIED_SHARE = 0.1
#: The method ends if the certified gap falls by less than a twentieth over so many stages.
PATIENCE = 12
#: A parameter that no labelling may use gets a score below 0 by so many times a bound on the scores of labellings: its
#: probability is then 0 in floating point, and for the certificate.
FORBIDDING_FACTOR = 1e3
#: Missing mass delta of each block at the start, in nats.
FIRST_DELTA = 0.05


@dataclass(frozen=True)
class EntropicProximal:
    """Options of the entropic proximal point method.

    temperature : tau of the first stage, as a share of the largest loss of one variable (the mean over variables, or
        one nat if that is more).
    shrink : factor of tau from stage to stage, in (0, 1); at most `DIAGONAL_ONLY` where no covariance is formed.
    memory : pairs kept by L-BFGS.
    inner : the duality gap of a stage is brought below this share of what smoothing costs; at least that of
        `DIAGONAL_ONLY` where no covariance is formed.
    newton : the most multiplications that one covariance may cost; if it costs more, or there is none, all metrics are
        diagonal. 0: always.
    patience : the fewest steps of a stage before it forms a (new) covariance; more if that is expensive
        (`WAITED_SHARE`).
    pilot : examples of the pilot run, and of the covariance; problems with fewer than four times as many, or with
        features that `part` cannot cut between examples, have no pilot run, and the covariance of all.
    max_steps : the most steps of one stage.
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
        """One iterate for each theta that a stage looks at; the run ends where the gap is closed or hardly fell for
        `PATIENCE` stages. Of ``start`` the theta and the last Gibbs atom of the witness are used; without it, a pilot
        run on the first ``pilot`` examples gives both.

        Raises
        ------
        ValueError
            If the theta of ``start`` does not fit the problem.
        """
        state = _State.begin(problem, self._first(problem), self.shrink, start)
        calls = 1.0
        pilot_run: _Run | None = None
        if start is None and self.has_pilot(problem):
            small = _first_examples(problem, self.pilot)
            state = _State.begin(small, self._first(small), self.shrink, None)
            run = _Run(self, small, state, rough=False)
            while run.smoothing > ROUGH_COST and run.stages < 40:
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

    def has_pilot(self, problem: GenerativeMargin) -> bool:
        """Whether there are so many examples that ``pilot`` of them stand for all, and they can be taken alone."""
        return 0 < 4 * self.pilot <= problem.n_examples and can_part(problem.features)

    def _first(self, problem: GenerativeMargin) -> float:
        """tau of the first stage: scores are logarithms, so the unit is what a variable loses, but at least one nat."""
        examples = problem.examples
        return self.temperature * max(float(examples.max_loss.sum()) / max(int(examples.free.sum()), 1), 1.0)


@dataclass
class _State:
    """The state between stages: the measure, the temperature of the next stage, and x = (phi, delta)."""

    measure: Measure
    tau: float
    x: Vector

    @classmethod
    def begin(cls, problem: GenerativeMargin, tau: float, shrink: float, start: Solution | None) -> _State:
        d = problem.dimension
        theta, natural, loss = starting_theta(problem, start), np.zeros(d), 0.0
        if start is not None:
            atoms = start.dual_point or {}
            if len(atoms.get("gibbs", ())) and float(np.max(atoms["gibbs_shares"][-1])) > 0.5:
                natural, loss = np.array(atoms["gibbs"][-1]), float(atoms["gibbs_loss"][-1])
                tau = min(tau, shrink / (1.0 - shrink) / loss) if loss > 0 else tau
        x = np.concatenate((theta, np.maximum(-problem.layout.block_logsumexp(theta), FIRST_DELTA)))
        return cls(_measure(problem, natural, loss), tau, x)

    def adopted_by(self, problem: GenerativeMargin) -> _State:
        return _State(_measure(problem, self.measure.theta, self.measure.loss), self.tau, self.x)


def _measure(problem: GenerativeMargin, natural: Vector, loss: float) -> Measure:
    expected = problem.oracle.expected(natural, loss)
    return Measure(natural, loss, float(problem.examples.weights @ expected.log_partition))


def _first_examples(problem: GenerativeMargin, n: int) -> GenerativeMargin:
    """The problem of the first n examples, weighted as if they were all."""
    features = part(problem.features, 0, n)
    more = float(problem.examples.weights.sum() / features.examples.weights.sum())
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
        self._sampled = 1.0  # share of the examples' weight that the covariance is computed from
        self._covariance = self._choose_covariance()
        self._cost = 0.0  # of a covariance, in evaluations of F
        self.shrink, self.inner = options.shrink, options.inner
        if self._covariance is None:
            self.shrink, self.inner = min(self.shrink, DIAGONAL_ONLY[0]), max(self.inner, DIAGONAL_ONLY[1])
        self._known: Vector | None = None  # the last covariance computed
        self._pairs = Pairs(options.memory, problem.dimension + len(problem.layout.block_sizes))
        self._pairs_tau = state.tau

    def follow(self, pilot: _Run) -> None:
        """Start where a pilot run ended: use Newton's metric at once, and its estimate of the cost of smoothing."""
        self._dense = self._covariance is not None
        self.smoothing = pilot.smoothing
        self._gap = self.smoothing * abs(pilot.best)

    def _choose_covariance(self) -> CountCovariance | None:
        """The covariance, of the examples of a pilot run alone if there are enough for one; None if there is none, or
        it costs too much."""
        if self.options.newton <= 0 or self.problem.dimension > LARGEST_DENSE:
            return None
        features = self.problem.features
        if self.options.has_pilot(self.problem):
            features = part(features, 0, self.options.pilot)
            self._sampled = float(features.examples.weights.sum() / self.problem.examples.weights.sum())
        found = CountCovariance(features)
        return found if found.kind and found.operations <= self.options.newton else None

    def stage(self) -> Iterator[Vector]:
        """One stage: yields theta from time to time, so that the driver can check limits, and at its end."""
        problem, options, state = self.problem, self.options, self.state
        c = (1.0 - self._epsilon(state)) * problem.c
        kappa = self._allowed(state) / (3.0 * len(problem.layout.block_sizes))  # a third of the gap over all blocks
        stage = Stage(problem, state.measure, state.tau, c, kappa)
        value = stage.at(state.x)
        self._pairs.scale(self._pairs_tau / state.tau)  # the Hessian goes with 1 / tau
        self._pairs_tau = state.tau
        descent = Descent(stage, value, self._metric(stage, value, self._known), self._pairs)
        rough = self.rough and (self.smoothing > ROUGH_COST if self._covariance is not None else self.stages == 0)
        patience = EVALUATION_STEPS
        if self._covariance is not None and not rough:
            if not self._dense:
                share = len(self._covariance.features.examples) / problem.n_examples
                self._cost = share * self._covariance.cost(*stage.natural(value))
                self.calls += share
            patience = max(options.patience, round(WAITED_SHARE * self._cost))
        steps = waited = 0
        while steps < options.max_steps:
            deadline.check()
            descent.step()
            steps, waited = steps + 1, waited + 1
            value = descent.value
            wanted = self._wanted(value)
            if descent.exhausted or stage_gap(problem, value) <= wanted:
                break
            if rough and ROUGH_DECREASE * descent.slope <= wanted:
                break
            if waited >= patience:
                waited = 0
                self.upper = problem.evaluate(value.theta).value
                self.calls += 1
                self.best = min(self.best, self.upper)
                yield value.theta
                if self._covariance is not None and not rough:
                    self._dense = True
                    descent.use(self._metric(stage, value, None))
        self.calls += stage.evaluations
        self.stages += 1
        self._note(stage, value)
        self.state = _State(stage.after(value), state.tau * self.shrink, value.x)
        self.improve(value.mu, value.omega)
        self.judge()
        yield value.theta

    def judge(self) -> None:
        """Set ``finished`` if the gap is closed, it hardly fell for `PATIENCE` stages, or 400 stages passed."""
        scale = magnitude(self.problem, self.best)
        self._history.append((self.best, self._bound))
        if self.best - self._bound <= 1e-13 * scale or self.stages >= 400:
            self.finished = True
        elif len(self._history) > PATIENCE:
            best, bound = self._history[-PATIENCE - 1]
            before = best - bound
            self.finished = bool(np.isfinite(before) and before - (self.best - self._bound) <= 0.05 * before)

    def _metric(self, stage: Stage, value: Value, known: Matrix | None) -> Metric:
        """The stage's metric, by a covariance that is ``known`` or a new one."""
        if not self._dense or self._covariance is None:
            return DiagonalMetric(stage, value)
        ridge = OLD_RIDGE
        if known is None:
            ridge = RIDGE if self._sampled == 1.0 else SAMPLE_RIDGE
            self.calls += self._cost
            self._known = known = self._covariance(*stage.natural(value)) / self._sampled
        return NewtonMetric(stage, value, known, ridge)

    def _wanted(self, value: Value) -> float:
        """The stage's own gap at which it ends: a share of the cost of smoothing, as estimated in the last stage."""
        cost = max(self._gap, CERTIFIED_SHARE * self._certified())
        return self.inner * min(cost, 0.02 * abs(value.f))

    def _certified(self) -> float:
        """The gap between the bounds; 0 if there is no lower bound yet."""
        return self.best - self._bound if np.isfinite(self._bound) else 0.0

    def _epsilon(self, state: _State) -> float:
        """epsilon, the slack in v: it costs at most a third of what a stage's own gap may be."""
        problem = self.problem
        d = problem.dimension
        theta = state.x[:d] - (problem.layout.block_logsumexp(state.x[:d]) + state.x[d:])[problem.layout.block_of]
        used = problem.c > 0
        divergence = float(problem.c[used] @ (np.log(problem.c[used]) - theta[used]))
        return float(min(1e-2, self._allowed(state) / (3.0 * max(divergence, 1.0))))

    def _allowed(self, state: _State) -> float:
        """What the next stage's own gap may be, from what smoothing cost in the last."""
        if np.isfinite(self._gap):
            cost = max(self.shrink * self._gap, CERTIFIED_SHARE * self._certified())
            return self.inner * min(cost, 0.01 * abs(self.best))
        return self.inner * 0.005 * self.problem.evaluate(self.problem.uniform()).value

    def _note(self, stage: Stage, value: Value) -> None:
        """Evaluate P, and estimate the cost of smoothing: eta sum_k w_k [max - tau ln E e^(./tau)]."""
        self.upper = self.problem.evaluate(value.theta).value
        self.calls += 1
        self.best = min(self.best, self.upper)
        f = value.f + float((stage.c - self.problem.c) @ value.theta)
        self._gap = min(self._gap, max(self.upper - f, 1e-13 * abs(f)))
        self.smoothing = self._gap / magnitude(self.problem, f)

    def improve(self, mu: Vector, omega: float) -> None:
        """Make the present measure, with moments (mu, omega), the witness if that raises the bound."""
        theta, loss, mu, omega = self._without_unused(mu, omega)
        share, bound = self.problem.best_on_segment(mu, omega)
        if bound > self._bound:
            self._witness, self._bound = (theta, loss, share), bound

    def _without_unused(self, mu: Vector, omega: float) -> tuple[Vector, float, Vector, float]:
        """The present Gibbs measure, and its (mu, omega). If c and the truth's count of a parameter are 0, v >= 0 holds
        only if no labelling uses it: such parameters get a score so low that none does. That mu is 0 there by one way
        of summing is not enough: by another it may be 1e-270."""
        problem = self.problem
        theta, loss = self.state.measure.theta, self.state.measure.loss
        unused = (problem.c == 0) & (problem.truth_counts == 0)
        if unused.any():
            theta = theta.copy()
            longest = int(np.bincount(problem.examples.example).max())
            theta[unused] = -FORBIDDING_FACTOR * (1.0 + longest * float(np.abs(theta).max()))
            expected = problem.oracle.expected(theta, loss)
            self.calls += 1
            mu, omega = problem.eta * (expected.counts - problem.truth_counts), problem.eta * expected.loss
        return theta, loss, mu, omega

    def look(self) -> Vector:
        """theta where the pilot run ended; evaluates both bounds of the whole problem there."""
        problem, d = self.problem, self.problem.dimension
        x = self.state.x
        theta = x[:d] - (problem.layout.block_logsumexp(x[:d]) + x[d:])[problem.layout.block_of]
        self.upper = self.best = problem.evaluate(theta).value
        expected = problem.oracle.expected(self.state.measure.theta, self.state.measure.loss)
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
