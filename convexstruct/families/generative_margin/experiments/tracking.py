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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct import losses
from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, Ring, ring
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.maximum_likelihood import maximum_likelihood
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD, Record
from convexstruct.graphs import hmm_tables
from convexstruct.plots import GREY, LOWER, ORANGE, UPPER, finish, panels
from convexstruct.tolerances import LOW

NAME = "tracking"
PAPER = "paper 0, section 4, Figure 1 and Table 1 (T)"
TITLE = "Toy tracking on a ring: test losses per sequence of maximum likelihood (ML) and discriminative training (DT)"
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


SETTINGS: dict[str, Noise] = {"EASY": EASY, "HARD": HARD}
ETAS = (0.01, 0.1, 1.0)
#: The eta at which DT is also trained with the Hamming loss, and at which the paper's algorithm is run.
MIDDLE = 0.1
N_TRAIN, N_TEST, LENGTH, SEEDS = 100, 1000, 50, 5
#: Most rounds of a solve, which needs far fewer. A time limit would make the results depend on the machine.
ROUNDS = 60
#: Time limit of the paper's algorithm on each setting, seconds.
SECONDS = 20.0
#: Training and test sequences and seconds of a quick run.
QUICK = (30, 200, 3.0)


class Model(NamedTuple):
    """One of "truth", "ML" and "DT"; the loss DT is trained with, and its eta."""

    name: str
    loss: str | None = None
    eta: float | None = None

    def __str__(self) -> str:
        return self.name if self.eta is None else f"{self.name}, {self.loss}, eta {self.eta:g}"


TRUTH, ML, DT = Model("truth"), Model("ML"), Model("DT", "ring", MIDDLE)


class Trained(NamedTuple):
    """A model of one seed; the solution of its problem, if one was solved."""

    theta: Vector
    solution: Solution | None = None


class Score(NamedTuple):
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


class Algorithm(NamedTuple):
    """The paper's algorithm on one instance: its solution, its records by iteration, a bound above the optimum."""

    solution: Solution
    records: Sequence[Record]
    optimum: float


def run(sheet: Sheet) -> None:
    """Train and test; the seed is the first of the five seeds."""
    seeds = range(sheet.seed, sheet.seed + sheet.pick(SEEDS, 1))
    n_train, n_test, limit = sheet.pick((N_TRAIN, N_TEST, SECONDS), QUICK)
    rings = [Model("DT", "ring", eta) for eta in sheet.pick(ETAS, (MIDDLE,))]
    models = [TRUTH, ML, *rings, Model("DT", "hamming", MIDDLE)]
    sheet.total = len(SETTINGS) * (len(seeds) * len(models) + 1)
    for name, loss, mistakes in (("ML", None, None), ("DT", "ring", 2.0)):
        published = PUBLISHED[f"{name} ring loss"], PUBLISHED[f"{name} standard deviation"]
        sheet.add("published", name, loss, None, *published, None, None, None, mistakes)
    algorithm: dict[str, Algorithm] = {}
    for setting, noise in SETTINGS.items():
        trained: dict[Model, list[Trained]] = {model: [] for model in models}
        scores: dict[Model, list[Score]] = {model: [] for model in models}
        for s in seeds:
            data = ring(n_train + n_test, LENGTH, noise=noise, seed=s)
            for model in models:
                sheet.step(f"{setting}, seed {s}: {model}")
                trained[model].append(train(data, n_train, model))
                scores[model].append(score(data, n_train, trained[model][-1].theta))
        for model in models:
            found = [fit.solution for fit in trained[model] if fit.solution is not None]
            ends = (max(one.gap for one in found), np.mean([one.seconds for one in found])) if found else ()
            sheet.add(setting, *model, *_means(scores[model], scores[ML]), *ends)
        sheet.step(f"{setting}: the paper's algorithm, eta {MIDDLE}")
        data = ring(n_train + n_test, LENGTH, noise=noise, seed=sheet.seed)
        algorithm[setting] = paper_algorithm(problem(_first(data, n_train), "ring", MIDDLE), trained[DT][0], limit)
    sheet.notes += [
        f"means over {len(seeds)} seed(s), {n_train} training and {n_test} test sequences of length {LENGTH}; sd: over "
        "the test sequences; mistakes: wrong positions a sequence; entropy: of the learned transitions, nats; to next: "
        "share of predicted steps that go to the next place; by symbol: share of predictions that are the usual one "
        "for the symbol seen; gap: the worst certified gap over the seeds",
        *_findings(sheet.table()),
        *(_table_1(setting, found) for setting, found in algorithm.items()),
    ]
    sheet.left_out(
        f"left out are {SEEDS - 1} seeds, {N_TRAIN - n_train} training and {N_TEST - n_test} test sequences, and eta "
        f"{ETAS[0]:g} and {ETAS[-1]:g}; with so few the numbers are not the paper's experiment"
    )
    sheet.figures = {
        f"Figure 1: bounds of the paper's algorithm (eta {MIDDLE}, seed {sheet.seed}); its projected estimate is no "
        "bound.": bounds(algorithm),
    }


def problem(data: Ring, loss: str, eta: float) -> GenerativeMargin:
    """The training problem: c uniform, all states hidden."""
    return GenerativeMargin.hmm(data.symbols, data.states, data.n_states, data.n_symbols, eta=eta, loss=loss)


def train(data: Ring, n_train: int, model: Model) -> Trained:
    """The true parameters, those of maximum likelihood, or those of discriminative training to 0.1%."""
    if model == TRUTH:
        with np.errstate(divide="ignore"):
            return Trained(np.concatenate([np.log(t).ravel() for t in (data.initial, data.transition, data.emission)]))
    wanted = problem(_first(data, n_train), model.loss or "ring", model.eta or 1.0)
    if model == ML:
        return Trained(maximum_likelihood(wanted))
    solution = solve(wanted, tol=LOW, max_iterations=ROUNDS)
    return Trained(wanted.shift(solution.point["theta"]), solution)


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


def transition_of(theta: Vector) -> Matrix:
    """Transition probabilities (S, S) on the ring of 10 places and 7 symbols, each row scaled to sum to 1."""
    raw = np.exp(hmm_tables(10, 7).tables(theta)["transition"])
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def paper_algorithm(wanted: GenerativeMargin, known: Trained, time_limit: float) -> Algorithm:
    """The paper's algorithm as printed but for its errata, with theta^0 uniform, to 0.1% or the time limit."""
    records: list[Record] = []
    solution = solve(wanted, ProximalRSD(refind=True, record=records.append), tol=LOW, time_limit=time_limit)
    return Algorithm(solution, records, min(one.primal for one in (solution, known.solution) if one is not None))


def _means(scores: Sequence[Score], of_ml: Sequence[Score]) -> list[float]:
    """The columns from "ring loss" to "by symbol", means over the seeds."""
    (loss, wrong), (ml_loss, ml_wrong) = (
        (np.array([s.ring.mean() for s in each]), np.array([s.mistakes.mean() for s in each]))
        for each in (scores, of_ml)
    )
    uses = np.mean([(s.entropy, s.to_next, s.by_symbol) for s in scores], axis=0)
    deviation = np.mean([s.ring.std() for s in scores])
    less = (loss - ml_loss).mean(), (wrong - ml_wrong).mean()
    return [loss.mean(), deviation, loss.std(), wrong.mean(), *less, *uses]


def _findings(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Notes that state the findings with the numbers of the rows."""
    table = {(row["setting"], row["model"], row["trained with"]): row for row in rows if row["eta"] in (None, MIDDLE)}
    yield (
        "the paper gives no eta, and of the noise only small probabilities, about 0.3 for transitions, which HARD "
        "keeps to and EASY (0.5 and 0.65) does not; no setting found reproduces all of it: EASY comes near its "
        "ring losses and has DT ahead, but there DT makes fewer mistakes than ML, not 2 more, and training with the "
        "Hamming loss hardly leaves the uniform distributions (entropy 2.303), so that its predictions hang on small "
        "differences and vary from seed to seed; HARD has the 2 more mistakes and a Hamming-trained DT near ML, but "
        "half the ring loss, and DT behind"
    )
    for setting in SETTINGS:
        truth, ml = table[setting, "truth", None], table[setting, "ML", None]
        dt, hamming = table[setting, "DT", "ring"], table[setting, "DT", "hamming"]
        verb = "wins" if dt["ring loss"] < ml["ring loss"] else "loses"
        yield (
            f"{setting}, eta {MIDDLE}: DT {verb} in ring loss, {dt['ring loss']:.1f} against {ml['ring loss']:.1f} of "
            f"ML and {truth['ring loss']:.1f} of the true model; {dt['to next']:.0%} of its predicted steps go to the "
            f"next place (ML {ml['to next']:.0%}), the entropy of its transitions is {dt['entropy']:.2f} nats (truth "
            f"{truth['entropy']:.2f}, uniform {np.log(10):.2f}), and {dt['by symbol']:.0%} of its predictions are the "
            f"usual one for the symbol (ML {ml['by symbol']:.0%}); trained with the Hamming loss it makes "
            f"{hamming['mistakes']:.1f} mistakes (ML {ml['mistakes']:.1f}), entropy {hamming['entropy']:.2f}"
        )
    yield (
        "where DT wins in ring loss and nearly all its predictions are the usual one for the symbol, it wins by "
        "discarding the dynamics: a wrong path of ML or of the true model is wrong for long, a symbol by itself is not"
    )


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


def bounds(runs: Mapping[str, Algorithm]) -> Figure:
    """The solver's own primal value and lower bound and the paper's projected estimate against iterations, one panel a
    setting; the gap in the panel's title is certified."""
    figure, every = panels(len(runs), size=(9.0, 3.6))
    for axes, (setting, (solution, records, optimum)) in zip(every, runs.items()):
        trace = solution.trace
        axes.axhline(optimum, color=GREY, lw=0.8, ls=":", label="optimum (best known)")
        axes.plot(trace.iteration, trace.primal, color=UPPER, lw=1.4, label="solver's own primal value")
        axes.plot(trace.iteration, trace.lower_bound, color=LOWER, lw=1.4, label="solver's own lower bound")
        projected = np.array([record.projected for record in records], dtype=float)
        shown = np.where(np.isfinite(projected), projected, np.nan)
        at = np.arange(2, len(records) + 2)  # the first iterate is the start, of which there is no record
        false = shown > optimum
        axes.plot(at[~false], shown[~false], ".", color="#555555", ms=2.5, label="the paper's projected estimate")
        axes.plot(at[false], shown[false], "x", color=ORANGE, ms=3.5, label="the same, above the optimum")
        above = trace.primal[0] - optimum
        title = f"{setting}: certified gap {solution.gap:.1e} after {solution.iterations} iterations"
        finish(axes, None, ylim=(optimum - 1.1 * above, optimum + 1.15 * above), xscale="log", title=title,
               xlabel="iteration", ylabel="objective")  # fmt: skip
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize="x-small", loc="outside lower center", ncols=5)
    return figure
