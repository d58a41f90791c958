"""Energy networks on the scenes of M. Boutell and others (2004): six labels, beside models with other structures.

    independent    six logistic regressions, the conditional random field without edges
    M3N            the max-margin Markov network on the full graph of labels, exact over one clique
    convex         the convex energy network, certified
    SPEN           the slides' energy network, five projected steps of 1/2 and eight hidden units, by exact products
                   with Hessians, and by central differences; a start and a stationary point (or a kink) of its own

All see the 294 colour features and a constant. The penalty of each is chosen by the Hamming loss on a third of the
training images. F1 is that of an image, 2 |both| / (|predicted| + |true|), and 1 where neither has a label. An epoch is
one gradient of the loss of all training images. The slides print no numbers for energy networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, listed, standard_error, timed
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.scene import SCENES, Scenes, divided
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork
from convexstruct.families.energy_network.solvers.unrolled_lbfgs import UnrolledLBFGS
from convexstruct.families.energy_network.unrolled import UnrolledEnergyNetwork
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.plots import LOWER, UPPER, finish, panels
from convexstruct.tolerances import LOW

NAME = "scene-spen"
PAPER = "paper 1, SPEN (slides), on the scenes of M. Boutell and others (2004)"
TITLE = "Energy networks for several labels an image: F1 and Hamming loss beside logistic regressions and the M3N"
PUBLISHED = {"papers 0 to 4": "no numbers on this set"}
COLUMNS = (
    "model", "penalty", "validated", "training", "Hamming", "se", "F1", "se of F1", "value", "gap", "status",
    "iterations", "seconds", "seconds an epoch",
)  # fmt: skip

N_LABELS = len(SCENES)
PAIRS = list(combinations(range(N_LABELS), 2))
#: Steps of the slides' prediction and hidden units; most iterations of a training, of the M3N most rounds.
STEPS, UNITS, ITERATIONS, QUICK_ITERATIONS, ROUNDS = np.full(5, 0.5), 8, 300, 40, 40
#: Images for training and for testing of a quick run.
QUICK_IMAGES = 120
#: Epochs that are timed, and the steps r of the differences in the picture.
TIMED, RADII = 20, np.logspace(-11, 0, 45)


class Trained(NamedTuple):
    """problem, solution, and the function that labels new images."""

    problem: Any
    solution: Solution
    predict: Callable[[Scenes], Labels]


class Model(NamedTuple):
    """fit : (images, penalty, most iterations) -> `Trained`. penalties : those tried, lam, or C where C is said."""

    fit: Callable[[Scenes, float, int], Trained]
    penalties: tuple[float, ...]
    unit: str = "lam"


def inputs(scenes: Scenes) -> Matrix:
    """The features and a constant."""
    return np.column_stack((scenes.features, np.ones(len(scenes.labels))))


def markov(kind: Any, pairs: list[tuple[int, int]], scenes: Scenes, c: float, most: int) -> Trained:
    """A conditional random field or an M3N over the labels of each image, with these edges."""
    seen = np.reshape(pairs, (-1, 2))
    problem = kind.read(**scenes.graphs(seen).arguments, C_mean=c)
    solution = solve(problem, tol=LOW, max_iterations=ROUNDS if pairs else None)

    def predict(new: Scenes) -> Labels:
        return np.stack(problem.predict(solution.point, read_pairwise(**new.graphs(seen).arguments)))

    return Trained(problem, solution, predict)


def network(make: Callable[..., Any], solver: Any, scenes: Scenes, lam: float, most: int) -> Trained:
    """An energy network, convex or unrolled."""
    problem = make(inputs(scenes), scenes.labels, lam)
    solution = solve(problem, solver, LOW, max_iterations=None if solver is None else most)
    return Trained(problem, solution, lambda new: np.stack(problem.predict(solution.point, inputs(new))))


UNROLLED = partial(UnrolledEnergyNetwork, n_units=UNITS, steps=STEPS)
SPEN = (10.0, 30.0, 100.0, 300.0)
MODELS = {
    "independent": Model(partial(markov, ConditionalRandomField, []), (10.0, 100.0, 1000.0), "C"),
    "M3N": Model(partial(markov, StructuredSVM, PAIRS), (10.0, 30.0, 100.0), "C"),
    "convex": Model(partial(network, ConvexEnergyNetwork, None), (3.0, 10.0, 30.0, 100.0)),
    "SPEN, exact": Model(partial(network, UNROLLED, UnrolledLBFGS()), SPEN),
    "SPEN, differences": Model(partial(network, UNROLLED, UnrolledLBFGS("central")), SPEN),
}


def run(sheet: Sheet) -> None:
    """Choose the penalty, train and test; the seed draws the images that are held out for the choice."""
    images, most = sheet.pick((None, ITERATIONS), (QUICK_IMAGES, QUICK_ITERATIONS))
    learning, kept, held, test = divided(sheet.seed, images)
    grids = {name: sheet.pick(model.penalties, model.penalties[1:2]) for name, model in MODELS.items()}
    sheet.total = sum(len(grid) + 1 for grid in grids.values()) + 1
    chosen, found = [], {}
    for name, model in MODELS.items():

        def judge(penalty: float, fit: Any = model.fit) -> float:
            return float((fit(kept, penalty, most).predict(held) != held.labels).mean())

        penalty, validated = sheet.choose(grids[name], judge, f"{name}: {model.unit} = {{:g}}".format)
        chosen.append(f"{name} {listed(validated, '{:.2%}')}")
        sheet.step(f"{name}: all {len(learning.labels)} training images, {model.unit} = {penalty:g}")
        trained, seconds = timed(model.fit, learning, penalty, most)
        found[name], solution, guessed = trained, trained.solution, trained.predict(test)
        wrong, share = (guessed != test.labels).mean(axis=1), f1(guessed, test.labels)
        sheet.add(
            name, f"{model.unit} = {penalty:g}", validated[penalty],
            (trained.predict(learning) != learning.labels).mean(), wrong.mean(), standard_error(wrong), share.mean(),
            standard_error(share), solution.primal, solution.gap, solution.status.name.lower(), solution.iterations,
            seconds, epoch(trained, name),
        )  # fmt: skip
    sheet.step("the error of the differences")
    problem, spen, _ = found["SPEN, exact"]
    errors, point = difference_errors(problem, spen), spen.point
    scores, steps = problem.forward(point, problem.X)
    better = problem.energies(point, scores, steps.y[-1]) <= problem.energies(point, scores, problem.T)
    sheet.notes += [
        f"trained on {len(learning.labels)} images, tested on {len(test.labels)}; Hamming: share of the labels that "
        "are wrong, training: the same on the training images; F1: mean over the test images; se: standard error, test "
        f"images being drawn; penalty: chosen on the {len(held.labels)} images held out: {'; '.join(chosen)}",
        "value, gap: certified; of SPEN the value is J at the end, and the gap is that to the bound J >= 0, for its "
        f"training is not convex: {spen.message}",
        "seconds: processor seconds of the last training; an epoch: one gradient through all steps of all training "
        "images, by exact products with Hessians or by central differences",
        f"the steps reach an energy no higher than the truth's for {better.mean():.1%} of the training images: only "
        "there is the slides' hinge an upper bound of the loss",
    ]
    sheet.left_out(
        f"{QUICK_IMAGES} training images, every so many of the test images, one penalty each, few iterations"
    )
    figure, (axes,) = panels(size=(5.6, 3.6))
    for name, colour in (("central", LOWER), ("forward", UPPER)):
        axes.plot(RADII, errors[name], color=colour, label=f"{name} differences")
    finish(axes, xscale="log", yscale="log", xlabel="step r, as a share of the vector's length",
           ylabel="error of the gradient, relative")  # fmt: skip
    sheet.figures[
        "Error of the gradient of the whole unrolled loss by differences, against their step r: the slides' one-sided "
        "quotient falls with r, the central one with its square, until rounding takes over."
    ] = figure


def f1(guessed: Labels, labels: Labels) -> Vector:
    """2 |both| / (|predicted| + |true|) of each image, 1 where neither has a label."""
    size = guessed.sum(axis=1) + labels.sum(axis=1)
    return np.asarray(np.where(size > 0, 2.0 * (guessed * labels).sum(axis=1) / np.maximum(size, 1), 1.0))


def epoch(trained: Trained, name: str) -> float | None:
    """Processor seconds of a gradient through the steps; None of other models."""
    if not isinstance(trained.problem, UnrolledEnergyNetwork):
        return None
    products = "central" if name.endswith("differences") else "exact"

    def gradients() -> None:
        for _ in range(TIMED):
            trained.problem.value_and_gradient(trained.solution.point, products)

    return timed(gradients)[1] / TIMED


def difference_errors(problem: UnrolledEnergyNetwork, solution: Solution) -> dict[str, list[float]]:
    """For both kinds of differences the error of the gradient at each r of `RADII`, relative to its length."""
    exact = problem.value_and_gradient(solution.point)[1]
    length = np.sqrt(sum(float((each**2).sum()) for each in exact.values())) or 1.0
    found: dict[str, list[float]] = {}
    for products in ("central", "forward"):
        found[products] = []
        for r in RADII.tolist():
            other = problem.value_and_gradient(solution.point, products, r)[1]
            found[products].append(
                float(np.sqrt(sum(((other[name] - each) ** 2).sum() for name, each in exact.items())) / length)
            )
    return found
