"""Paper 2, section 5, Figures 1-4: solvers of the linear support vector machine against iterations and against time.

Shown for each set: J less its optimum, against iterations (Figure 1) and seconds (Figure 2), test accuracy against both
(Figures 3 and 4), and the observed rate: how the iterations to a gap eps grow with 1/eps, beside 1/eps and 1/sqrt(eps).

a9a is read if it is available. The package has none of the paper's other sets; two generated ones, one dense and one
sparse, replace them. As in the paper, lam is the one of the best accuracy on validation rows, and there is no bias.
Only pragam-b has a bias, hence another objective, and only its accuracy is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, listed
from convexstruct.core.iterate import Solver
from convexstruct.datasets.generated.margins import dense_margins, sparse_margins
from convexstruct.datasets.real.a9a import a9a
from convexstruct.families.regularized_risk.experiments import svm_figures
from convexstruct.families.regularized_risk.experiments.svm_paths import HeldOut, Limits, Path, follow, liblinear, rate
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.families.regularized_risk.solvers.pegasos import Pegasos1, PegasosN
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, PragamB
from convexstruct.families.regularized_risk.solvers.projected_gradient import ProjectedGradient
from convexstruct.families.regularized_risk.solvers.semismooth_newton.proximal_point import SemismoothNewton
from convexstruct.tolerances import LOW

NAME = "svm-solvers"
PAPER = "paper 2, section 5, Figures 1-4"
TITLE = "Solvers of the linear support vector machine: objective and test accuracy against iterations and time"
COLUMNS = (
    "set", "solver", "iterations", "seconds", "J - J*", "it. to 1e-3", "s to 1e-3", "it. to 1e-5", "s to 1e-5",
    "rate", "accuracy", "s to accuracy",
)  # fmt: skip

#: The values of lam tried on validation rows, and the share of training rows held out for that.
LAMS = tuple(10.0**-k for k in range(1, 7))
VALIDATION = 0.2
#: Gaps at which iterations and seconds are reported.
GAPS = (1e-3, 1e-5)
LIMITS = Limits(seconds=10.0, iterations=100_000, gap=1e-8)
QUICK = Limits(seconds=10.0, iterations=400, gap=1e-6)
#: Relative gap to which the optimum is computed.
EXACT = 1e-10
#: Iterates of pegasos-1 in one pass over the data.
A_PASS = 10
#: A solver has reached its accuracy at the first row from which on accuracies span at most so many percentage points.
NEAR = 0.1

#: The solvers by the names of the paper; gradient, the loop of (25) alone; and default, which is what `solve` takes.
SOLVERS: Mapping[str, Callable[[RegularizedRisk, int], Solver]] = {
    "pragam": lambda problem, seed: Pragam(),
    "pragam-b": lambda problem, seed: PragamB(),
    "gradient": lambda problem, seed: ProjectedGradient(),
    "ls-bmrm": lambda problem, seed: LsBMRM(),
    "qp-bmrm": lambda problem, seed: QpBMRM(),
    "pegasos-n": lambda problem, seed: PegasosN(),
    "pegasos-1": lambda problem, seed: Pegasos1(steps=a_pass(problem), seed=seed),
    "default": lambda problem, seed: SemismoothNewton(),
}


class Split(NamedTuple):
    """A set for training and rows to test on."""

    name: str
    features: Any
    labels: NDArray[Any]
    test: HeldOut


def run(sheet: Sheet) -> None:
    """Train every solver on every set; the seed draws the generated sets, the validation rows and pegasos' examples."""
    splits, missing = sets(sheet.quick, sheet.seed)
    limits, lams = sheet.pick((LIMITS, LAMS), (QUICK, LAMS[2:3]))
    names = (*SOLVERS, "liblinear")
    sheet.total = len(splits) * (len(names) + 1)
    sheet.notes += [
        "J - J*: least objective so far less the optimum's certified lower bound, absolute, as in the paper; rate: p "
        "of iterations ~ (1/eps)^p, fitted over the second half of the run (1: O(1/eps), 0.5: O(1/sqrt(eps)), near 0: "
        "linear), left out where that spans less than a factor of ten; accuracy: on the test rows, of the best "
        "iterate; s to accuracy: seconds until it stays within 0.1 percent points of its last value; seconds are the "
        "solver's own, evaluation is not counted; iterations of pegasos-1 are single examples, of liblinear "
        "passes over the data",
        "default is the solver that `solve` chooses; liblinear is scikit-learn's LinearSVC, and shows no iterates: "
        "each point of its line is a run of its own, timed as a whole",
        "the paper's printed lam are lost in the scan; lam is chosen here as there, by the accuracy on validation rows",
    ]
    shown: dict[str, tuple[dict[str, Path], float]] = {}
    for split in splits:
        sheet.step(f"{split.name}: lam")
        lam, accuracies = choose_lam(split, sheet.seed, lams)
        problem = RegularizedRisk.binary(split.features, split.labels, lam)
        exact = solve(problem, tol=EXACT)
        paths: dict[str, Path] = {}
        for name in names:
            sheet.step(f"{split.name}: {name}")
            path = path_of(name, split, problem, limits, exact.lower_bound, sheet.seed)
            if path is not None:
                paths[name] = path
                sheet.add(
                    split.name, name, path.iteration[-1], path.seconds[-1], *measured(name, path, exact.lower_bound)
                )
        shown[split.name] = (paths, exact.lower_bound)
        sheet.notes.append(
            f"{split.name}: {problem.n_pieces} training rows, {len(split.test.labels)} test rows, "
            f"{split.features.shape[1]} features; lam = {lam:g} (validation accuracy {listed(accuracies, '{:.2%}')}); "
            f"the optimum is {exact.primal:.9g}, certified to a relative gap of {exact.gap:.0e} by "
            f"{exact.solver.split(' (')[0]}"
        )
        if "liblinear" not in paths:
            missing.append(f"{split.name}: liblinear, because scikit-learn is not installed")
    sheet.notes += [f"left out: {sentence}" for sentence in missing]
    sheet.left_out("small sets; a9a, all but one lam of each set and most iterations left out")
    sheet.figures = {
        "Figure 1: objective less its optimum against iterations.": svm_figures.gaps(shown, "iteration"),
        "Figure 2: the same against seconds.": svm_figures.gaps(shown, "seconds"),
        "Figure 3: test accuracy against iterations.": svm_figures.accuracies(shown, "iteration"),
        "Figure 4: the same against seconds.": svm_figures.accuracies(shown, "seconds"),
        "Observed rates: iterations to a gap of eps.": svm_figures.rates(shown),
    }


def a_pass(problem: RegularizedRisk) -> int:
    """Examples of one iterate of pegasos-1."""
    return max(1, problem.n_pieces // A_PASS)


def path_of(
    name: str, split: Split, problem: RegularizedRisk, limits: Limits, optimum: float, seed: int
) -> Path | None:
    """The path of one solver; None if it is not installed. pragam-b solves the problem with a bias, whose optimum is
    not known here: it stops at a limit of rounds or of time."""
    if name == "liblinear":
        return liblinear(problem, split.test, limits, optimum, seed)
    if name == "pragam-b":
        problem = RegularizedRisk.binary(split.features, split.labels, problem.lam, bias=True)
        limits, optimum = replace(limits, gap=0.0, seconds=0.5 * limits.seconds), -np.inf
    path = follow(SOLVERS[name](problem, seed), problem, split.test, limits, optimum)
    if name == "pegasos-1":
        path.iteration = [a_pass(problem) * passed for passed in path.iteration]
    return path


def sets(quick: bool, seed: int) -> tuple[list[Split], list[str]]:
    """The sets, and a sentence for each that is left out."""
    missing = [
        "astro-ph, aut-avn, covertype, news20, real-sim, reuters-c11, reuters-ccat and web8 of the paper's Table 1, "
        "which are not among the package's sets"
    ]
    n, width = (400, 60) if quick else (4000, 200)
    words = (400, 2000) if quick else (8000, 30_000)
    dense = dense_margins(2 * n, width, seed=seed)
    sparse = sparse_margins(2 * words[0], words[1], words=60, seed=seed)
    found = [halved("dense", dense.features, dense.labels), halved("sparse", sparse.features, sparse.labels)]
    if quick:
        return found, missing
    try:
        train, test = a9a("train"), a9a("test")
    except ValueError as error:
        missing.append(str(error))
        return found, missing
    return [Split("a9a", train.features, train.labels, HeldOut(test.features, test.labels)), *found], missing


def halved(name: str, features: Any, labels: NDArray[Any]) -> Split:
    """The first half for training, the second for testing."""
    n = len(labels) // 2
    return Split(name, features[:n], labels[:n], HeldOut(features[n:], labels[n:]))


def choose_lam(split: Split, seed: int, lams: Sequence[float] = LAMS) -> tuple[float, dict[float, float]]:
    """The lam of the best accuracy on validation rows (the largest of those that tie), and all accuracies."""
    n = len(split.labels)
    order = np.random.default_rng(seed).permutation(n)
    held, rest = order[: round(VALIDATION * n)], order[round(VALIDATION * n) :]
    validation = HeldOut(split.features[held], split.labels[held])
    found = {}
    for lam in lams:
        problem = RegularizedRisk.binary(split.features[rest], split.labels[rest], lam)
        found[lam] = validation.accuracy(problem, solve(problem, tol=LOW).point)
    top = max(found.values())
    return max(lam for lam, accuracy in found.items() if accuracy == top), found


def measured(name: str, path: Path, optimum: float) -> list[Any]:
    """The columns from "J - J*" on; pragam-b, whose objective is another one, has none of the objective."""
    cells: list[Any] = [None] * 6
    if name != "pragam-b":
        cells = [path.value[-1] - optimum]
        for gap in GAPS:
            at = path.reached(optimum, gap)
            cells += [None, None] if at is None else [path.iteration[at], path.seconds[at]]
        fitted = rate(path, optimum)
        cells.append(None if fitted is None else round(fitted[0], 2))
    arrived = next(at for at in range(len(path.accuracy)) if np.ptp([100 * a for a in path.accuracy[at:]]) <= NEAR)
    return [*cells, path.accuracy[-1], path.seconds[arrived]]
