"""Paper 0, section 4, first experiment: tracking a position on a ring; Figure 1 and Table 1's first row.

100 training and 1000 test sequences of length 50; maximum likelihood (ML) against discriminative training (DT), c
uniform, theta^0 uniform, to within 0.1% of the optimum, as in the paper. The paper gives no eta, and of the noise it
says only "a small probability (about 0.3)" for transitions and "a small probability" for symbols. So two settings are
shown, each with several eta: `convexstruct.datasets.HARD`, 0.3 and 0.3, as these words say, and `EASY`, 0.5 and 0.65,
which contradicts them but gives losses near those printed.

A sequence's loss is the sum over its 50 positions of the distance along the ring between the predicted (MAP) and the
true position, in steps; mistakes are positions predicted wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from convexstruct import losses
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Progress, Result, Steps
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, Ring, ring
from convexstruct.families.generative_margin.experiments import tracking_figures
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.maximum_likelihood import maximum_likelihood
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD, Record
from convexstruct.graphs import hmm_tables
from convexstruct.tolerances import LOW

NAME = "tracking"
PAPER = "paper 0, section 4, Figure 1 and Table 1 (T)"
TITLE = "Toy tracking on a ring: test losses per sequence of maximum likelihood (ML) and discriminative training (DT)"

SETTINGS: dict[str, Noise] = {"EASY": EASY, "HARD": HARD}
ETAS = (0.01, 0.1, 1.0)
#: The eta at which DT is also trained with the Hamming loss, and at which the paper's algorithm is run.
MIDDLE = 0.1
N_TRAIN, N_TEST, LENGTH = 100, 1000, 50
SEEDS = 5
#: Most rounds of a solve, which needs far fewer. A time limit would make the results depend on the machine.
ROUNDS = 60
#: Time limit of the paper's algorithm on each setting, seconds.
SECONDS = 20.0
#: Training and test sequences and seconds of a quick run.
QUICK = (30, 200, 3.0)

PUBLISHED = {
    "ML ring loss": 103.4,
    "ML standard deviation": 19.1,
    "DT ring loss": 94.6,
    "DT standard deviation": 13.5,
    "DT mistakes less ML mistakes": 2.0,
    "Figure 1: iterations to 0.1%": 1000,
    "points at the end": 61,
    "Table 1 (T): seconds": 717,
    "Table 1 (T): master": 0.034,
    "Table 1 (T): direction finding": 0.866,
    "Table 1 (T): centre change": 0.100,
}

COLUMNS = (
    "setting", "model", "trained with", "eta", "ring loss", "sd", "sd of seeds", "mistakes", "ring less ML",
    "mistakes less ML", "entropy", "to next", "by symbol", "gap", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A model of one seed. upper, gap : bound on its problem's optimum and certified gap; None if none was solved."""

    theta: Vector
    upper: float | None = None
    gap: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Score:
    """A model on one seed's test sequences.

    ring (K,) : ring loss of each sequence. mistakes (K,) : wrong positions of each. entropy : mean entropy of the
    learned transition distributions, nats. to_next : share of predicted steps that go to the next place. by_symbol :
    share of positions whose prediction is the one most often made for the symbol seen there.
    """

    ring: Vector
    mistakes: Vector
    entropy: float
    to_next: float
    by_symbol: float


@dataclass(frozen=True)
class Algorithm:
    """The paper's algorithm on one instance: its solution, its records by iteration, a bound above the optimum."""

    solution: Solution
    records: Sequence[Record]
    optimum: float


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Train and test; ``seed`` is the first of the five seeds."""
    seeds = range(seed, seed + (1 if quick else SEEDS))
    n_train, n_test, limit = QUICK if quick else (N_TRAIN, N_TEST, SECONDS)
    models = list(_models((MIDDLE,) if quick else ETAS))
    steps = Progress(progress, len(SETTINGS) * (len(seeds) * len(models) + 1))
    rows: list[list[Cell]] = [
        _published("ML", None, PUBLISHED["ML ring loss"], PUBLISHED["ML standard deviation"], None),
        _published("DT", "ring", PUBLISHED["DT ring loss"], PUBLISHED["DT standard deviation"], 2.0),
    ]
    learned: dict[str, dict[str, Matrix]] = {}
    algorithm: dict[str, Algorithm] = {}
    for setting, noise in SETTINGS.items():
        trained: dict[Model, list[Trained]] = {model: [] for model in models}
        scores: dict[Model, list[Score]] = {model: [] for model in models}
        for s in seeds:
            data = ring(n_train + n_test, LENGTH, noise=noise, seed=s)
            for model in models:
                steps.next(f"{setting}, seed {s}: {model}")
                trained[model].append(train(data, n_train, model))
                scores[model].append(score(data, n_train, trained[model][-1].theta))
        rows += [_row(setting, model, scores[model], trained[model], scores[ML]) for model in models]
        shown = [model for model in models if model.eta in (None, MIDDLE)]
        learned[setting] = {str(model): transition_of(trained[model][0].theta) for model in shown}
        steps.next(f"{setting}: the paper's algorithm, eta {MIDDLE}")
        data = ring(n_train + n_test, LENGTH, noise=noise, seed=seed)
        first = problem(_first(data, n_train), "ring", MIDDLE)
        algorithm[setting] = paper_algorithm(first, trained[Model("DT", "ring", MIDDLE)][0], limit)
    figures = {
        f"Figure 1: bounds of the paper's algorithm (eta {MIDDLE}, seed {seed}); its projected estimate is no bound.": (
            tracking_figures.bounds({n: (a.solution, a.records, a.optimum) for n, a in algorithm.items()})
        ),
        f"Transition probabilities, from state (row) to state (column), seed {seed}.": (
            tracking_figures.transitions(learned)
        ),
    }
    notes = [
        f"means over {len(seeds)} seed(s), {n_train} training and {n_test} test sequences of length {LENGTH}; sd: over "
        "the test sequences; mistakes: wrong positions a sequence; entropy: of the learned transitions, nats; to next: "
        "share of predicted steps that go to the next place; by symbol: share of predictions that are the usual one "
        "for the symbol seen; gap: the worst certified gap over the seeds",
        *_findings(rows),
        *(_table_1(setting, found) for setting, found in algorithm.items()),
    ]
    if quick:
        notes.append(
            f"quick: left out are {SEEDS - 1} seeds, {N_TRAIN - n_train} training and {N_TEST - n_test} test "
            f"sequences, and eta {ETAS[0]:g} and {ETAS[-1]:g}; with so few the numbers are not the paper's experiment"
        )
    return Result(NAME, PAPER, COLUMNS, rows, PUBLISHED, notes, steps.seconds, figures)


class Model(NamedTuple):
    """One of "truth", "ML" and "DT"; the loss DT is trained with, and its eta."""

    name: str
    loss: str | None = None
    eta: float | None = None

    def __str__(self) -> str:
        return self.name if self.eta is None else f"{self.name}, {self.loss}, eta {self.eta:g}"


TRUTH, ML = Model("truth"), Model("ML")


def _models(etas: Sequence[float]) -> Iterator[Model]:
    yield from (TRUTH, ML)
    yield from (Model("DT", "ring", eta) for eta in etas)
    yield Model("DT", "hamming", MIDDLE)


def problem(data: Ring, loss: str, eta: float) -> GenerativeMargin:
    """The training problem: c uniform, all states hidden."""
    return GenerativeMargin.hmm(data.symbols, data.states, data.n_states, data.n_symbols, eta=eta, loss=loss)


def train(data: Ring, n_train: int, model: Model) -> Trained:
    """The true parameters, those of maximum likelihood, or those of discriminative training to 0.1%."""
    if model.loss is None or model.eta is None:
        if model == TRUTH:
            with np.errstate(divide="ignore"):
                tables = (data.initial, data.transition, data.emission)
                return Trained(np.concatenate([np.log(table).ravel() for table in tables]))
        return Trained(maximum_likelihood(problem(_first(data, n_train), "ring", 1.0)))
    wanted = problem(_first(data, n_train), model.loss, model.eta)
    solution = solve(wanted, tol=LOW, max_iterations=ROUNDS)
    return Trained(wanted.shift(solution.point["theta"]), solution.primal, solution.gap, solution.seconds)


def _first(data: Ring, n: int) -> Ring:
    return replace(data, symbols=data.symbols[:n], states=data.states[:n])


def score(data: Ring, n_train: int, theta: Vector) -> Score:
    """Losses of the MAP state sequences of the examples after ``n_train``, and how far these use the dynamics."""
    test = problem(replace(data, symbols=data.symbols[n_train:], states=data.states[n_train:]), "ring", 1.0)
    found = np.stack(test.predict(theta))
    true, symbols = np.stack(data.states[n_train:]), np.stack(data.symbols[n_train:])
    transition = transition_of(theta)
    surprise = -np.log(np.where(transition > 0, transition, 1.0))
    pairs = np.zeros((data.n_symbols, data.n_states))
    np.add.at(pairs, (symbols, found), 1.0)
    return Score(
        ring=losses.ring(data.n_states)[true, found].sum(axis=1),
        mistakes=(true != found).sum(axis=1).astype(np.float64),
        entropy=float((transition * surprise).sum(axis=1).mean()),
        to_next=float((found[:, 1:] == (found[:, :-1] + 1) % data.n_states).mean()),
        by_symbol=float(pairs.max(axis=1).sum() / pairs.sum()),
    )


def transition_of(theta: Vector, n_states: int = 10, n_symbols: int = 7) -> Matrix:
    """Transition probabilities (S, S), each row scaled to sum to 1."""
    raw = np.exp(hmm_tables(n_states, n_symbols).tables(theta)["transition"])
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def paper_algorithm(wanted: GenerativeMargin, known: Trained, time_limit: float) -> Algorithm:
    """The paper's algorithm as printed but for its errata, with theta^0 uniform, to 0.1% or the time limit."""
    records: list[Record] = []
    solution = solve(wanted, ProximalRSD(refind=True, record=records.append), tol=LOW, time_limit=time_limit)
    return Algorithm(solution, records, min(solution.primal, np.inf if known.upper is None else known.upper))


def _row(
    setting: str, model: Model, scores: Sequence[Score], trained: Sequence[Trained], reference: Sequence[Score]
) -> list[Cell]:
    ring_loss, mistakes = _means(scores)
    ml_ring_loss, ml_mistakes = _means(reference)
    cells = [
        ring_loss.mean(), np.mean([s.ring.std() for s in scores]), ring_loss.std(), mistakes.mean(),
        (ring_loss - ml_ring_loss).mean(), (mistakes - ml_mistakes).mean(), np.mean([s.entropy for s in scores]),
        np.mean([s.to_next for s in scores]), np.mean([s.by_symbol for s in scores]),
    ]  # fmt: skip
    gaps = [fit.gap for fit in trained if fit.gap is not None]
    seconds = [fit.seconds for fit in trained if fit.seconds is not None]
    worst, spent = (max(gaps), float(np.mean(seconds))) if gaps else (None, None)
    return [setting, model.name, model.loss, model.eta, *(float(cell) for cell in cells), worst, spent]


def _means(scores: Sequence[Score]) -> tuple[Vector, Vector]:
    return np.array([s.ring.mean() for s in scores]), np.array([s.mistakes.mean() for s in scores])


def _published(name: str, loss: str | None, value: float, deviation: float, mistakes: float | None) -> list[Cell]:
    return ["published", name, loss, None, value, deviation, None, None, None, mistakes, *[None] * 5]


def _findings(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Notes that state the findings with the numbers of the rows."""
    table: dict[tuple[str, str, str | None], dict[str, Any]] = {
        (str(row[0]), str(row[1]), None if row[2] is None else str(row[2])): dict(zip(COLUMNS, row))
        for row in rows
        if row[3] in (None, MIDDLE)
    }
    notes = [
        "the paper gives no eta, and of the noise only small probabilities, about 0.3 for transitions, which HARD "
        "keeps to and EASY (0.5 and 0.65) does not; no setting found reproduces all of it: EASY comes near its "
        "ring losses and has DT ahead, but there DT makes fewer mistakes than ML, not 2 more, and training with the "
        "Hamming loss hardly leaves the uniform distributions (entropy 2.303), so that its predictions hang on small "
        "differences and vary from seed to seed; HARD has the 2 more mistakes and a Hamming-trained DT near ML, but "
        "half the ring loss, and DT behind"
    ]
    for setting in SETTINGS:
        truth, ml = table[setting, "truth", None], table[setting, "ML", None]
        dt, hamming = table[setting, "DT", "ring"], table[setting, "DT", "hamming"]
        verb = "wins" if dt["ring loss"] < ml["ring loss"] else "loses"
        notes.append(
            f"{setting}, eta {MIDDLE}: DT {verb} in ring loss, {dt['ring loss']:.1f} against {ml['ring loss']:.1f} of "
            f"ML and {truth['ring loss']:.1f} of the true model; {dt['to next']:.0%} of its predicted steps go to the "
            f"next place (ML {ml['to next']:.0%}), the entropy of its transitions is {dt['entropy']:.2f} nats (truth "
            f"{truth['entropy']:.2f}, uniform {np.log(10):.2f}), and {dt['by symbol']:.0%} of its predictions are the "
            f"usual one for the symbol (ML {ml['by symbol']:.0%}); trained with the Hamming loss it makes "
            f"{hamming['mistakes']:.1f} mistakes (ML {ml['mistakes']:.1f}), entropy {hamming['entropy']:.2f}"
        )
    notes.append(
        "where DT wins in ring loss and nearly all its predictions are the usual one for the symbol, it wins by "
        "discarding the dynamics: a wrong path of ML or of the true model is wrong for long, a symbol by itself is not"
    )
    return notes


def _table_1(setting: str, algorithm: Algorithm) -> str:
    solution = algorithm.solution
    parts = solution.trace.parts
    total = sum(parts.values()) or 1.0
    split = ", ".join(f"{name} {seconds / total:.1%}" for name, seconds in parts.items())
    above = sum(record.projected > algorithm.optimum for record in algorithm.records)
    points = algorithm.records[-1].points if algorithm.records else 0
    return (
        f"Table 1 on {setting}, eta {MIDDLE}: {solution.seconds:.1f} s, {split}, {solution.iterations} iterations to a "
        f"certified gap of {solution.gap:.1e} with {points} points at the end (published: 717 s, master 3.4%, "
        f"direction finding 86.6%, centre change 10.0%, about 1000 iterations to 0.1%, 61 points); the paper's "
        f"projected lower bound lies above the optimum in {above} of {len(algorithm.records)} iterations"
    )
