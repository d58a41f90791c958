r"""Gaussian process sequence labelling on proteins: (32) of paper 2 beside the CRF that it extends.

The label of a residue is coil, sheet or helix; its input x has indicators of the 13 residues around it. Three models:

* the conditional random field in explicit features (family log_linear), minimised in theta (`explicit`);
* the kernel CRF (32) with the linear kernel, minimised in u. It is the same problem with w = X'u, so the certified
  brackets of the two implementations must overlap;
* the kernel CRF with an RBF kernel, which has no finite set of explicit features.

lam and the width of the RBF kernel are chosen on a held-out third of the training chains, never by the test chains.
The fast path is compared with the plain gradient method, which is given as many products with the Gram matrix. Each
residue is predicted by its most probable label; the column "best" has the accuracy of the most probable labelling of
each whole chain, which makes more mistakes per residue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Cell, Progress, Result, Steps, standard_error
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, Proteins, protein
from convexstruct.families.gaussian_process.kernels import Kernel, one_hot_windows
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.plots import GREY, LOWER, UPPER
from convexstruct.tolerances import HIGH, LOW

NAME = "gp-sequence"
PAPER = "paper 2, E.2 (32), the method, on N. Qian and T. Sejnowski's chains (1988)"
TITLE = "Gaussian process sequence labelling: the kernel CRF beside the CRF, on secondary structure"

#: Neighbours seen on each side; variance of a transition's score.
RADIUS = 6
ETA = 1.0
#: Number of training chains of a full and of a quick run.
CHAINS, QUICK = 36, 10
#: Numbers of generated training and test chains, which replace the real ones where these are missing.
GENERATED = (12, 6)

#: The solvers as the table calls them.
SOLVERS = {"L-BFGS in t": FunctionSpaceLBFGS(), "gradient in t": FunctionSpaceLBFGS(memory=0)}
FAST, PLAIN = SOLVERS

PUBLISHED = {"Qian and Sejnowski 1988, neural network, test accuracy": 0.643}

COLUMNS = (
    "model", "lam", "solver", "unknowns", "lower bound", "value", "gap", "held out", "train", "test", "se", "best",
    "iterations", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What is chosen on held-out chains: a kernel and lam."""

    kernel: Kernel
    lam: float

    @property
    def name(self) -> str:
        return f"rbf {self.kernel.gamma:g}" if self.kernel.name == "rbf" else self.kernel.name


LINEAR = [Choice(Kernel("linear"), lam) for lam in (3.0, 10.0, 30.0)]
RBF = [Choice(Kernel("rbf", gamma), lam) for gamma in (0.02, 0.05) for lam in (0.1, 0.3, 1.0)]
#: The linear and the RBF choice of a quick run, which validates nothing.
QUICK_CHOICES = (LINEAR[1], RBF[-2])


def run(quick: bool = False, seed: int = 0, progress: Steps | None = None) -> Result:
    """Choose, train and test; ``seed`` draws the training and the held-out chains. Missing chains are generated."""
    train, test, notes = chains(QUICK if quick else CHAINS, seed)
    grids = [[choice] for choice in QUICK_CHOICES] if quick else [LINEAR, RBF]
    steps = Progress(progress, sum(len(grid) for grid in grids) * (not quick) + 5)
    chosen, held_out = [], []
    for grid in grids:
        shares = dict.fromkeys(grid, None) if quick else validated(train, grid, seed, steps)
        chosen.append(max(grid, key=lambda choice: shares[choice] or 0.0))
        held_out.append(shares[chosen[-1]])
    linear, rbf = chosen
    rows: list[list[Cell]] = [_majority(train, test)]

    steps.next("the CRF in explicit features")
    crf = explicit(windows(train), train.structures, len(STRUCTURES), ETA, linear.lam)
    fitted = solve(crf, tol=HIGH)
    found = [crf.posteriors(fitted.point, scaled(windows(part), ETA)) for part in (train, test)]
    best = crf.predict(fitted.point, scaled(windows(test), ETA))
    accuracy = _accuracy(train, test, found[0], found[1], best)
    rows.append(_row("CRF", linear.lam, "L-BFGS in theta", crf.dimension, fitted, held_out[0], accuracy))

    def fit(
        name: str,
        choice: Choice,
        solver: str = FAST,
        share: float | None = None,
        eta: float = ETA,
        most: int | None = None,
    ) -> tuple[GaussianProcessSequences, Solution]:
        """The kernel CRF of this choice, solved; a row of the table."""
        problem = replace(stated(train, choice), eta=eta)
        solution = solve(problem, SOLVERS[solver], HIGH, max_iterations=most)
        u, seen = solution.point["u"], windows(test)
        accuracy = _accuracy(train, test, problem.posteriors(u), problem.posteriors(u, seen), problem.predict(u, seen))
        rows.append(_row(f"{name}, {choice.name}", choice.lam, solver, problem.dimension, solution, share, accuracy))
        return problem, solution

    steps.next("the kernel CRF, linear")
    notes += agreement(crf, fitted, *fit("kernel CRF", linear, share=held_out[0]), test)
    steps.next("the kernel CRF, RBF")
    problem, solution = fit("kernel CRF", rbf, share=held_out[1])
    steps.next("the same by the plain gradient")
    plain = fit("kernel CRF", rbf, PLAIN, held_out[1], most=solution.iterations)[1]
    steps.next("the same without transitions")
    fit("kernel classifier", rbf, eta=0.0)

    notes += [
        f"trained on {train.n_chains} chains ({train.n_residues} residues, {problem.n_inputs} distinct windows), "
        f"tested on {test.n_chains} ({test.n_residues}); every fast path to a certified gap of {HIGH.gap:g}",
        "'in t': in the geometry of the kernel, by the fast path and by the plain gradient; seconds are those of the "
        "run, without the Gram matrix; every gap is certified by Gibbs marginals",
        f"the plain gradient was stopped after as many products with the Gram matrix as the fast path had iterations: "
        f"its gap is {plain.gap:.1e}",
        "held out, train, test: share of residues whose most probable structure is right; best: the same on the test "
        "chains for the best labelling of each whole chain. se: standard error of test, the test chains being "
        "drawn; differences of one or two of it say nothing about which model is better",
    ]
    if quick:
        notes.append(
            f"quick: {CHAINS - QUICK} training chains and the choice of lam and of the kernel's width left out"
        )
    figures = {
        "Relative gap of the kernel CRF against products with the Gram matrix: L-BFGS in the geometry of the "
        "kernel, and the plain gradient.": picture(solution, plain)
    }
    return Result(NAME, PAPER, COLUMNS, rows, PUBLISHED, notes, steps.seconds, figures)


# -- data --------------------------------------------------------------------------------------------------------------


def chains(n_chains: int, seed: int) -> tuple[Proteins, Proteins, list[str]]:
    """(training chains, test chains, notes on them)."""
    try:
        every, test = protein("train"), protein("test")
    except ValueError:
        train, test = (generated(n, [seed, n]) for n in GENERATED)
        note = (
            "the protein chains are not here (`convexstruct data` says where they come from): generated chains stand "
            "in, which show the identity and the solvers; their accuracies say nothing about proteins"
        )
        return train, test, [note]
    order = np.random.default_rng(seed).permutation(every.n_chains)[:n_chains]
    return some(every, order), test, []


def generated(n_chains: int, seed: Sequence[int]) -> Proteins:
    """Chains of 36 to 80 residues: 12 segments of 3 to 11, cut after the 40th to 80th residue (fewer than 40 where the
    segments end before); each structure has residue frequencies of its own."""
    rng = np.random.default_rng(list(seed))
    prefers = np.random.default_rng(0).dirichlet(np.full(len(AMINO_ACIDS), 0.7), size=len(STRUCTURES))
    residues, structures = [], []
    for _ in range(n_chains):
        lengths = rng.integers(3, 12, size=12)
        kinds = (rng.integers(len(STRUCTURES)) + np.cumsum(rng.integers(1, 3, size=12))) % len(STRUCTURES)
        structure = np.repeat(kinds, lengths)[: rng.integers(40, 81)]
        residues.append(np.array([rng.choice(len(AMINO_ACIDS), p=prefers[kind]) for kind in structure]))
        structures.append(structure.astype(np.int64))
    return Proteins(residues, structures)


def some(chains: Proteins, which: Sequence[int] | Labels) -> Proteins:
    return Proteins([chains.residues[i] for i in which], [chains.structures[i] for i in which])


def windows(chains: Proteins) -> list[Matrix]:
    """The 13 residues around each residue, as 273 indicators; (length, 273) for each chain."""
    return one_hot_windows(chains.residues, len(AMINO_ACIDS), RADIUS)


# -- training ----------------------------------------------------------------------------------------------------------


def stated(chains: Proteins, choice: Choice) -> GaussianProcessSequences:
    """Problem (32) on ``chains``."""
    return GaussianProcessSequences.read(
        windows(chains), chains.structures, len(STRUCTURES), kernel=choice.kernel, eta=ETA, lam=choice.lam
    )


def validated(train: Proteins, grid: Sequence[Choice], seed: int, steps: Progress) -> dict[Choice, float | None]:
    """Accuracy of each choice on a held-out third of the chains, after training on the rest."""
    order = np.random.default_rng([seed, 1]).permutation(train.n_chains)
    cut = train.n_chains // 3
    kept, held = some(train, order[cut:]), some(train, order[:cut])
    found: dict[Choice, float | None] = {}
    problem: GaussianProcessSequences | None = None
    before: Choice | None = None
    for choice in grid:
        steps.next(f"{choice.name}, lam {choice.lam:g}: on {kept.n_chains} chains, judged on {held.n_chains}")
        if problem is None or before is None or before.kernel != choice.kernel:  # one Gram matrix for each kernel
            problem = stated(kept, choice)
        before, problem = choice, replace(problem, lam=choice.lam)
        u = solve(problem, FunctionSpaceLBFGS(), LOW).point["u"]
        found[choice] = share(held, most_probable(problem.posteriors(u, windows(held))))
    return found


def most_probable(posteriors: Sequence[Matrix]) -> list[Labels]:
    return [posterior.argmax(axis=1) for posterior in posteriors]


def share(chains: Proteins, found: Sequence[Labels]) -> float:
    """The share of residues predicted rightly."""
    return float(np.mean(np.concatenate(found) == np.concatenate(chains.structures)))


def scaled(inputs: Sequence[Matrix], eta: float) -> list[Matrix]:
    """The inputs as `explicit` takes them: divided by sqrt(eta)."""
    return [x / np.sqrt(eta) for x in inputs]


def explicit(
    inputs: Sequence[Matrix], labels: Sequence[Labels], n_labels: int, eta: float, lam: float
) -> ConditionalRandomField:
    """The kernel CRF with a linear kernel, in explicit features; eta > 0:

        min  lam/2 (|W|^2 + |V|^2 / eta) + sum_i [ln sum_y e^score_i(y) - score_i(y_i)],
             score(y) = sum_p x_p'W[:, y_p] + sum_p V[y_{p-1}, y_p].

    With k(x, x') = x'x, W = X'A and V = eta B the two are one problem: |W|^2 = <A, G A>, |V|^2 / eta = eta |B|^2,
    X W = G A. Here it is stated in theta = (sqrt(eta) W, V), of which the penalty is lam / (2 eta) |theta|^2, and with
    x / sqrt(eta) in place of x.
    """
    return ConditionalRandomField.read(scaled(inputs, eta), labels, n_labels, beta=lam / eta)


def weights(crf: ConditionalRandomField, theta: Vector, eta: float) -> tuple[Matrix, Matrix]:
    """W (d, S) and V (S, S) of `explicit`."""
    of_nodes, of_edges = crf.features.split(theta)
    return of_nodes.T / np.sqrt(eta), of_edges[0]


def agreement(
    crf: ConditionalRandomField,
    fitted: Solution,
    problem: GaussianProcessSequences,
    solution: Solution,
    test: Proteins,
) -> list[str]:
    """A note that compares brackets, weights and predictions of the CRF and of the linear kernel CRF."""
    both = (fitted, solution)
    low, high = max(one.lower_bound for one in both), min(one.primal for one in both)
    overlap = (
        f"both certified brackets hold the optimum between {low:.10g} and {high:.10g}"
        if low <= high
        else f"THE BRACKETS DO NOT MEET: {' and '.join(f'[{one.lower_bound}, {one.primal}]' for one in both)}"
    )
    u = solution.point["u"]
    mine = np.concatenate(crf.predict(fitted.point, scaled(windows(test), problem.eta)))
    theirs = np.concatenate(problem.predict(u, windows(test)))
    label, transition = problem.split(u)
    assert problem.gram.inputs is not None
    w, v = weights(crf, fitted.point["theta"], problem.eta)
    apart = max(
        float(np.abs(w - problem.gram.inputs.T @ label).max()),
        float(np.abs(v - problem.eta * transition).max()),
    )
    return [
        f"a kernel CRF with a linear kernel is the CRF: {overlap}; w and X'u differ by at most {apart:.1e}; "
        f"the best labellings of the test chains agree at {float(np.mean(mine == theirs)):.2%} of the residues"
    ]


# -- rows and picture --------------------------------------------------------------------------------------------------


def _accuracy(
    train: Proteins, test: Proteins, on_train: Sequence[Matrix], on_test: Sequence[Matrix], best: Sequence[Labels]
) -> list[float]:
    """The columns train, test, se and best."""
    hits = np.concatenate(most_probable(on_test)) == np.concatenate(test.structures)
    of_train = share(train, most_probable(on_train))
    return [of_train, float(hits.mean()), standard_error(test.lengths, hits), share(test, best)]


def _row(
    model: str, lam: float, solver: str, unknowns: int, found: Solution, held_out: float | None, accuracy: list[float]
) -> list[Cell]:
    bracket = (found.lower_bound, found.primal, found.gap)
    return [model, lam, solver, unknowns, *bracket, held_out, *accuracy, found.iterations, found.seconds]


def _majority(train: Proteins, test: Proteins) -> list[Cell]:
    most = int(np.bincount(np.concatenate(train.structures)).argmax())
    hits = np.concatenate(test.structures) == most
    of_train = float(np.mean(np.concatenate(train.structures) == most))
    known = float(hits.mean())
    return ["always the commonest", *[None] * 7, of_train, known, standard_error(test.lengths, hits), known, None, None]


def picture(fast: Solution, plain: Solution) -> Figure:
    """The gap of both solvers by their own bounds against iterations, each of one product with the Gram matrix; a
    diamond at the end of each line marks the certified gap."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for solution, colour, name in ((fast, LOWER, FAST), (plain, UPPER, PLAIN)):
        trace = solution.trace
        axes.plot(trace.iteration, trace.gaps(), color=colour, label=name)
        axes.plot(trace.iteration[-1:], [solution.gap], "D", color=colour, mec="black", ms=5)
    axes.plot([], [], "D", color="none", mec="black", ms=5, label="certified")
    axes.axhline(HIGH.gap, color=GREY, lw=0.8, ls=":")
    axes.set_yscale("log")
    axes.set_xlabel("iterations, one product with the Gram matrix each")
    axes.set_ylabel("relative gap, solver's own bounds")
    axes.legend(frameon=False, fontsize="small")
    return figure
