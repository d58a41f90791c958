r"""Gaussian process sequence labelling on proteins: (32) of paper 2 beside the CRF that it extends.

The label of a residue is coil, sheet or helix; its input x has indicators of the 13 residues around it. Three models:

* the conditional random field in explicit features (family log_linear), minimised in theta (`explicit`);
* the kernel CRF (32) with the linear kernel, minimised in u. It is the same problem with w = X'u, so the certified
  brackets of the two implementations must overlap;
* the kernel CRF with an RBF kernel, which has no finite set of explicit features.

lam and the width of the RBF kernel are chosen on a held-out third of the training chains. The fast path is compared
with the plain gradient method, which is given as many products with the Gram matrix. Each residue is predicted by its
most probable label; the column "best" has the accuracy of the most probable labelling of each whole chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from convexstruct.arrays import Flags, Labels, Matrix
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, standard_error
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.protein import AMINO_ACIDS, STRUCTURES, Proteins, protein
from convexstruct.families.gaussian_process.kernels import Kernel, one_hot_windows
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.families.gaussian_process.solvers.function_space_lbfgs import FunctionSpaceLBFGS
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels
from convexstruct.tolerances import HIGH, LOW

NAME = "gp-sequence"
PAPER = "paper 2, E.2 (32), the method, on N. Qian and T. Sejnowski's chains (1988)"
TITLE = "Gaussian process sequence labelling: the kernel CRF beside the CRF, on secondary structure"
PUBLISHED = {"Qian and Sejnowski 1988, neural network, test accuracy": 0.643}
COLUMNS = (
    "model", "lam", "solver", "unknowns", "lower bound", "value", "gap", "held out", "train", "test", "se", "best",
    "iterations", "seconds",
)  # fmt: skip

#: Neighbours seen on each side; variance of a transition's score.
RADIUS, ETA = 6, 1.0
#: Number of training chains of a full and of a quick run.
CHAINS, QUICK = 36, 10
#: The solvers as the table calls them.
SOLVERS = {"L-BFGS in t": FunctionSpaceLBFGS(), "gradient in t": FunctionSpaceLBFGS(memory=0)}
FAST, PLAIN = SOLVERS


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


def run(sheet: Sheet) -> None:
    """The seed draws the training and the held-out chains."""
    every, test = protein("train"), protein("test")
    order = np.random.default_rng(sheet.seed).permutation(every.n_chains)
    train = every.some(order[: sheet.pick(CHAINS, QUICK)])
    grids = [LINEAR, RBF]
    sheet.total = 5 + (0 if sheet.quick else sum(map(len, grids)))
    chosen: list[tuple[Choice, float | None]] = [(choice, None) for choice in QUICK_CHOICES]
    if not sheet.quick:
        chosen = [validated(train, grid, sheet) for grid in grids]
    (linear, linear_share), (rbf, rbf_share) = chosen

    def row(
        names: tuple[str, float, str], problem: Any, found: Solution, share: float | None, shown: Any, best: Any
    ) -> None:
        """shown : posteriors on the training and on the test chains. best : labellings of the test chains."""
        of_train, of_test = (right(part, [p.argmax(axis=1) for p in each]) for part, each in zip((train, test), shown))
        sheet.add(
            *names, problem.dimension, found.lower_bound, found.primal, found.gap, share, of_train.mean(),
            of_test.mean(), standard_error(of_test, test.lengths), right(test, best).mean(), found.iterations,
            found.seconds,
        )  # fmt: skip

    most = np.bincount(np.concatenate(train.structures)).argmax()
    always = [right(part, [np.full(n, most) for n in part.lengths]) for part in (train, test)]
    known = always[1].mean()
    sheet.add(
        "always the commonest", *[None] * 7, always[0].mean(), known, standard_error(always[1], test.lengths), known
    )

    sheet.step("the CRF in explicit features")
    crf, seen = explicit(windows(train), train.structures, len(STRUCTURES), linear.lam), windows(test)
    fitted = solve(crf, tol=HIGH)
    best = crf.predict(fitted.point, seen)
    shown = [crf.posteriors(fitted.point), crf.posteriors(fitted.point, seen)]
    row(("CRF", linear.lam, "L-BFGS in theta"), crf, fitted, linear_share, shown, best)

    def fit(
        name: str, choice: Choice, solver: str = FAST, share: float | None = None, eta: float = ETA,
        most: int | None = None,
    ) -> tuple[GaussianProcessSequences, Solution]:  # fmt: skip
        """The kernel CRF of this choice, solved; a row of the table."""
        problem = replace(stated(train, choice), eta=eta)
        solution = solve(problem, SOLVERS[solver], HIGH, max_iterations=most)
        u = solution.point["u"]
        shown = problem.posteriors(u), problem.posteriors(u, seen)
        names = f"{name}, {choice.name}", choice.lam, solver
        row(names, problem, solution, share, shown, problem.predict(u, seen))
        return problem, solution

    sheet.step("the kernel CRF, linear")
    kernel, solution = fit("kernel CRF", linear, share=linear_share)
    same = np.mean(np.concatenate(best) == np.concatenate(kernel.predict(solution.point["u"], seen)))
    sheet.notes.append(
        f"{agreement(crf, fitted, kernel, solution)}; the best labellings of the test chains agree at {same:.2%} of "
        "the residues"
    )
    sheet.step("the kernel CRF, RBF")
    problem, solution = fit("kernel CRF", rbf, share=rbf_share)
    sheet.step("the same by the plain gradient")
    plain = fit("kernel CRF", rbf, PLAIN, rbf_share, most=solution.iterations)[1]
    sheet.step("the same without transitions")
    fit("kernel classifier", rbf, eta=0.0)
    sheet.notes += [
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
    sheet.left_out(f"{CHAINS - QUICK} training chains and the choice of lam and of the kernel's width left out")
    figure, (axes,) = panels(size=(6.4, 3.6))
    for each, colour, name in ((solution, LOWER, FAST), (plain, UPPER, PLAIN)):
        axes.plot(each.trace.iteration, each.trace.gaps(), color=colour, label=name)
        axes.plot(each.trace.iteration[-1:], [each.gap], "D", color=colour, mec="black", ms=5)
    axes.plot([], [], "D", color="none", mec="black", ms=5, label="certified")
    axes.axhline(HIGH.gap, color=GREY, lw=0.8, ls=":")
    across = "iterations, one product with the Gram matrix each"
    finish(axes, yscale="log", xlabel=across, ylabel="relative gap, solver's own bounds")
    sheet.figures[
        "Relative gap of the kernel CRF against products with the Gram matrix: L-BFGS in the geometry of the "
        "kernel, and the plain gradient."
    ] = figure


# -- data --------------------------------------------------------------------------------------------------------------


def windows(chains: Proteins) -> list[Matrix]:
    """The 13 residues around each residue, as 273 indicators; (length, 273) for each chain."""
    return one_hot_windows(chains.residues, len(AMINO_ACIDS), RADIUS)


def right(chains: Proteins, found: Sequence[Labels]) -> Flags:
    """Whether each residue is predicted rightly; chains are concatenated."""
    return np.asarray(np.concatenate(found) == np.concatenate(chains.structures))


# -- training ----------------------------------------------------------------------------------------------------------


def stated(chains: Proteins, choice: Choice) -> GaussianProcessSequences:
    """Problem (32) on ``chains``."""
    return GaussianProcessSequences.read(
        windows(chains), chains.structures, len(STRUCTURES), kernel=choice.kernel, eta=ETA, lam=choice.lam
    )


def validated(train: Proteins, grid: Sequence[Choice], sheet: Sheet) -> tuple[Choice, float | None]:
    """The choice of the best accuracy on a held-out third of the chains, after training on the rest, and it."""
    order = np.random.default_rng([sheet.seed, 1]).permutation(train.n_chains)
    cut = train.n_chains // 3
    kept, held = train.some(order[cut:]), train.some(order[:cut])
    one_gram_matrix = lru_cache(maxsize=1)(lambda kernel: stated(kept, Choice(kernel, 1.0)))

    def judge(choice: Choice) -> float:
        problem = replace(one_gram_matrix(choice.kernel), lam=choice.lam)
        u = solve(problem, FunctionSpaceLBFGS(), LOW).point["u"]
        return float(right(held, [p.argmax(axis=1) for p in problem.posteriors(u, windows(held))]).mean())

    def name(choice: Choice) -> str:
        return f"{choice.name}, lam {choice.lam:g}: on {kept.n_chains} chains, judged on {held.n_chains}"

    best, shares = sheet.choose(grid, judge, name, largest=True)
    return best, shares[best]


def explicit(inputs: Sequence[Matrix], labels: Sequence[Labels], n_labels: int, lam: float) -> ConditionalRandomField:
    """The kernel CRF with a linear kernel and eta = 1, in explicit features:

        min  lam/2 (|W|^2 + |V|^2) + sum_i [ln sum_y e^score_i(y) - score_i(y_i)],
             score(y) = sum_p x_p'W[:, y_p] + sum_p V[y_{p-1}, y_p].

    With k(x, x') = x'x, W = X'A and V = B the two are one problem: |W|^2 = <A, G A> and X W = G A.
    """
    return ConditionalRandomField.read(inputs, labels, n_labels, beta=lam)


def agreement(
    crf: ConditionalRandomField, fitted: Solution, problem: GaussianProcessSequences, solution: Solution
) -> str:
    """A sentence that compares brackets and weights of the CRF and of the linear kernel CRF."""
    both = (fitted, solution)
    low, high = max(one.lower_bound for one in both), min(one.primal for one in both)
    overlap = (
        f"both certified brackets hold the optimum between {low:.10g} and {high:.10g}"
        if low <= high
        else f"THE BRACKETS DO NOT MEET: {' and '.join(f'[{one.lower_bound}, {one.primal}]' for one in both)}"
    )
    label, transition = problem.split(solution.point["u"])
    assert problem.gram.inputs is not None
    w, v = crf.features.split(fitted.point["theta"])
    apart = max(np.abs(w.T - problem.gram.inputs.T @ label).max(), np.abs(v[0] - transition).max())
    return f"a kernel CRF with a linear kernel is the CRF: {overlap}; w and X'u differ by at most {apart:.1e}"
