"""Paper 4, 20.6: contrastive divergence against the exact gradient of the likelihood, and on handwritten digits.

Two small models, an Ising model and a restricted Boltzmann machine, whose ln Z is a sum over all states. Along a path
of exact gradient steps, the expected step of CD-k, from the transition matrix of Gibbs sampling, is compared with the
gradient: the cosine of their angle, and the ratio of their lengths. Near the maximum the gradient vanishes and the step
of CD-1 does not: what remains is its bias, which falls with k. Then both are trained by CD-k, and the likelihood that
is reached is computed exactly; beside it, on the Ising model, that of `ImportanceSampling`.

Digits: 8 x 8 images of handwritten digits, pixels above half of their range being 1. A restricted Boltzmann machine is
trained by CD-1; shown are digits held back from training, the same with noise, and reconstructions of both. Its ln Z is
estimated by annealed importance sampling (`importance_log_partition`), with its standard error: no bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.examples import ising
from convexstruct.families.log_linear.importance import Estimate, importance_log_partition
from convexstruct.families.log_linear.restricted_boltzmann import BoltzmannTraining, RestrictedBoltzmann
from convexstruct.families.log_linear.solvers.contrastive_divergence import ContrastiveDivergence
from convexstruct.families.log_linear.solvers.importance_sampling import ImportanceSampling
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.gibbs import Gibbs
from convexstruct.oracles.enumeration import labellings
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels

NAME = "contrastive-divergence"
PAPER = "paper 4, 20.6, contrastive divergence and its use for restricted Boltzmann machines"
TITLE = "Contrastive divergence: its step against the gradient, and reconstructed digits"
COLUMNS = ("model", "k", "cosine midway", "cosine at the end", "length at the end", "mean ln p", "best mean ln p")

#: Sweeps k of CD-k, and the numbers of exact gradient steps after which its step is compared with the gradient.
SWEEPS, PATH = (1, 2, 5, 20), (0, 5, 20, 80, 320)
#: Samples of each small model; visible and hidden variables of the small Boltzmann machine.
SAMPLES, VISIBLE, HIDDEN = 500, 6, 4
#: Training of the small models: steps of CD-k on the Ising model; epochs of the Boltzmann machine.
STEPS, EPOCHS = 400, 300
#: K, the samples of the importance-sampled likelihood, and how often each is drawn; once where it is quick.
IMPORTANCE, DRAWS = (500, 2000, 8000), 5
#: Digits: images to train on and to hold back, hidden variables, epochs; chains and temperatures for ln Z.
TRAINED, HELD, DIGIT_HIDDEN, DIGIT_EPOCHS, CHAINS, TEMPERATURES = 1500, 297, 64, 60, 50, 100
QUICK_STEPS, QUICK_EPOCHS, QUICK_DIGIT_EPOCHS, QUICK_CHAINS, QUICK_TEMPERATURES = 100, 60, 8, 20, 50
#: Images shown, and the share of their pixels that are replaced by noise in the last row.
SHOWN, NOISE = 10, 0.25
#: Pixels of the images run from 0 to this.
BRIGHTEST = 16


class Compared(NamedTuple):
    """For one model: cosine (path, k) and length (path, k) of CD-k's mean step against the gradient; reached (k,) the
    mean ln p after training by CD-k; best : that of exact training; sampled : what the importance-sampled likelihood
    misses of it with each K of `IMPORTANCE`, the mean of a few draws, where that was tried."""

    cosine: Matrix
    length: Matrix
    reached: Vector
    best: float
    sampled: tuple[float, ...] = ()


class Digits(NamedTuple):
    """errors (epochs,) : mean squared error of reconstructions of the training images. shown (rows, SHOWN, 64) : images
    held back, their reconstructions, the images with noise, and reconstructions of those. score : mean of -F over the
    images held back. log_partition : the estimate."""

    errors: Vector
    shown: Matrix
    score: float
    log_partition: Estimate


def transition(factors: Factors, flat: Vector) -> Matrix:
    """P(x after a sweep | x before) over all joint labels, variables in the order in which the sampler draws them."""
    every = labellings(factors.cards)
    radix = np.concatenate(([1], np.cumprod(factors.cards[:-1]))).astype(np.int64)
    p = np.exp(flat[factors.entries(every)].sum(axis=1))
    whole = np.eye(len(every))
    for v in (int(v) for colour in Gibbs(factors).colours for v in colour.variables):
        bare = every @ radix - every[:, v] * radix[v]
        moved = bare[:, None] + np.arange(factors.cards[v]) * radix[v]
        step = np.zeros_like(whole)
        np.put_along_axis(step, moved, p[moved] / p[moved].sum(axis=1, keepdims=True), axis=1)
        whole = whole @ step
    return whole


def on_ising(seed: int, steps: int, draws: int = DRAWS) -> Compared:
    """A cycle of six binary variables with a chord, a parameter for each edge and node."""
    graph = nx.cycle_graph(6)
    graph.add_edge(0, 3)
    factors = ising(graph)
    rng, every = np.random.default_rng([seed, 1]), labellings(factors.cards)
    table = factors.joint_each(every).toarray()

    def logs(theta: Vector) -> Vector:
        scores = table @ theta
        return np.asarray(scores - np.logaddexp.reduce(scores))

    data = rng.multinomial(SAMPLES, np.exp(logs(rng.normal(size=factors.dimension)))) / SAMPLES
    theta, along = np.zeros(factors.dimension), []
    for t in range(PATH[-1] + 1):
        gradient = (data - np.exp(logs(theta))) @ table
        if t in PATH:
            once = transition(factors, np.asarray(factors.design @ theta))
            taken = [(data - data @ np.linalg.matrix_power(once, k)) @ table for k in SWEEPS]
            along.append([_beside(each, gradient) for each in taken])
        theta = theta + gradient
    problem = ApproximateField.read(factors, np.repeat(every, np.round(data * SAMPLES).astype(int), axis=0))
    reached = []
    for k in SWEEPS:
        *_, last = ContrastiveDivergence(k=k, steps=steps, step=1.0, seed=seed).walk(problem)
        reached.append(float(data @ logs(last.mean)))
    for _ in range(2000):
        theta = theta + (data - np.exp(logs(theta))) @ table
    best, sampled = float(data @ logs(theta)), []
    for n in IMPORTANCE:
        found = [solve(problem, ImportanceSampling(n, seed=draws * seed + draw)) for draw in range(draws)]
        sampled.append(best - float(np.mean([data @ logs(each.point["theta"]) for each in found])))
    cosine, length = np.moveaxis(np.array(along), 2, 0)
    return Compared(cosine, length, np.array(reached), best, tuple(sampled))


def on_machine(seed: int, epochs: int) -> Compared:
    """A restricted Boltzmann machine, fitted to samples of another."""
    rng, states = np.random.default_rng([seed, 2]), labellings([2] * VISIBLE).astype(np.float64)
    hidden = labellings([2] * HIDDEN).astype(np.float64)
    other = RestrictedBoltzmann(
        2.0 * rng.normal(size=(VISIBLE, HIDDEN)), rng.normal(size=VISIBLE), rng.normal(size=HIDDEN)
    )
    p = np.exp(-other.free_energy(states) - other.log_partition())
    data = rng.multinomial(SAMPLES, p / p.sum()) / SAMPLES
    machine = RestrictedBoltzmann(0.1 * rng.normal(size=(VISIBLE, HIDDEN)), np.zeros(VISIBLE), np.zeros(HIDDEN))
    along = []
    for t in range(10 * PATH[-1] + 1):
        clamped = machine.moments(states, data)
        gradient = clamped.plus(-1.0, machine.exact_moments())
        if t in PATH:
            up, down = machine.hidden_given(states), machine.visible_given(hidden)
            once = _product(up, hidden) @ _product(down, states)
            after = [machine.moments(states, data @ np.linalg.matrix_power(once, k)) for k in SWEEPS]
            along.append([_beside(_flat(clamped.plus(-1.0, each)), _flat(gradient)) for each in after])
        machine = machine.plus(1.0, gradient)
    best = float(data @ -machine.free_energy(states)) - machine.log_partition()
    rows, reached = np.repeat(states, np.round(data * SAMPLES).astype(int), axis=0), []
    for k in SWEEPS:
        *_, last = BoltzmannTraining(HIDDEN, k=k, epochs=epochs, decay=0.0, step=0.2, seed=seed).train(rows)
        reached.append(last.machine.log_likelihood(rows))
    cosine, length = np.moveaxis(np.array(along), 2, 0)
    return Compared(cosine, length, np.array(reached), best)


def _product(p: Matrix, states: Matrix) -> Matrix:
    """(m, K) probabilities of states (K, H) of a layer whose variables are independent and 1 with p (m, H)."""
    return np.asarray(np.where(states[None] == 1.0, p[:, None], 1.0 - p[:, None]).prod(axis=2))


def _flat(machine: RestrictedBoltzmann) -> Vector:
    return np.concatenate((machine.weights.ravel(), machine.visible, machine.hidden))


def _beside(step: Vector, gradient: Vector) -> tuple[float, float]:
    """The cosine of the angle of two vectors, and the ratio of their lengths."""
    lengths = np.linalg.norm(step), np.linalg.norm(gradient)
    return float(step @ gradient / (lengths[0] * lengths[1])), float(lengths[0] / lengths[1])


def on_digits(seed: int, epochs: int, chains: int, temperatures: int) -> Digits | None:
    """A machine trained by CD-1 on scikit-learn's digits; None where scikit-learn is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    rng = np.random.default_rng([seed, 3])
    images = (load_digits().data > BRIGHTEST / 2).astype(np.float64)[rng.permutation(TRAINED + HELD)]
    train, held = images[:TRAINED], images[TRAINED:]
    walk = list(BoltzmannTraining(DIGIT_HIDDEN, epochs=epochs, seed=seed).train(train))
    machine = walk[-1].machine
    clean = held[:SHOWN]
    noisy = np.where(rng.random(clean.shape) < NOISE, rng.integers(2, size=clean.shape), clean)
    shown = np.array([clean, machine.reconstruction(clean), noisy, machine.reconstruction(noisy)])
    factors, theta = machine.as_factors()
    estimate = importance_log_partition(factors, theta, chains, seed, temperatures=temperatures)
    return Digits(np.array([each.error for each in walk]), shown, float(-machine.free_energy(held).mean()), estimate)


def run(sheet: Sheet) -> None:
    """Both small models, and the digits; the seed draws the models, the data and the chains."""
    sheet.total = 3
    sheet.step("Ising model")
    found = {"Ising, 6 variables": on_ising(sheet.seed, *sheet.pick((STEPS, DRAWS), (QUICK_STEPS, 1)))}
    sheet.step("small machine")
    found[f"machine, {VISIBLE} + {HIDDEN}"] = on_machine(sheet.seed, sheet.pick(EPOCHS, QUICK_EPOCHS))
    sheet.step("digits")
    small = QUICK_DIGIT_EPOCHS, QUICK_CHAINS, QUICK_TEMPERATURES
    digits = on_digits(sheet.seed, *sheet.pick((DIGIT_EPOCHS, CHAINS, TEMPERATURES), small))
    for name, each in found.items():
        for j, k in enumerate(SWEEPS):
            sheet.add(name, k, *each.cosine[[2, -1], j], each.length[-1, j], each.reached[j], each.best)
    sheet.notes += [
        f"cosine and length: of CD-k's step, in the mean over its chains and computed exactly, against the gradient of "
        f"the likelihood, after {PATH[2]} and after {PATH[-1]} steps of the gradient itself",
        "mean ln p: of the data, after training by CD-k, computed exactly; best: after exact gradient steps (of the "
        "machine's, whose likelihood is not concave, the best that this start leads to); nothing is certified",
        *(
            f"{name} by importance-sampled likelihood: mean ln p is below the best by "
            f"{', '.join(f'{miss:.1e}' for miss in each.sampled)} "
            f"with {', '.join(map(str, IMPORTANCE))} samples, the mean of {sheet.pick(DRAWS, 1)} draws"
            for name, each in found.items()
            if each.sampled
        ),
    ]
    sheet.figures = {
        "Cosine (left) and length (middle) of CD-k's mean step against the gradient, along a path of exact gradient "
        "steps; full lines the Ising model, dashed ones the machine. Right: what is missing of the best mean ln p.": (
            picture(found)
        )
    }
    if digits is None:
        sheet.notes.append(
            'the digits are left out: they come with scikit-learn, which is not installed (pip install ".[peers]")'
        )
    else:
        value = digits.score - digits.log_partition.value
        sheet.notes.append(
            f"digits: mean squared error {digits.errors[0]:.4f} after the first epoch, {digits.errors[-1]:.4f} after "
            f"{len(digits.errors)}; mean ln p of {HELD} images held back about {value:.1f} nats "
            f"(independent pixels at 1/2: {-64 * math.log(2):.1f}), with ln Z = {digits.log_partition.value:.1f} "
            f"+- {digits.log_partition.standard_error:.1f} from {sheet.pick(CHAINS, QUICK_CHAINS)} chains that "
            f"weigh as much as {digits.log_partition.effective:.0f}: an estimate, no bound"
        )
        sheet.figures[
            "Digits held back; what the machine makes of them; a quarter of their pixels noise; what it makes of those."
        ] = drawn(digits)
    sheet.left_out("fewer steps, epochs, chains and temperatures")


def picture(found: dict[str, Compared]) -> Figure:
    """Cosines, lengths and likelihoods."""
    figure, (left, middle, right) = panels(3, size=(10.5, 3.3))
    at = np.array(PATH) + 1
    for (name, each), style in zip(found.items(), ("o-", "s--")):
        for j, (k, colour) in enumerate(zip(SWEEPS, (GREY, LOWER, UPPER, "black"))):
            label = f"k = {k}" if style == "o-" else None
            left.plot(at, each.cosine[:, j], style, color=colour, ms=3, lw=1.2, label=label)
            middle.plot(at, each.length[:, j], style, color=colour, ms=3, lw=1.2)
        right.plot(SWEEPS, np.maximum(each.best - each.reached, 1e-6), style, color="black", ms=4, lw=1.2, label=name)
    across = {"xscale": "log", "xlabel": "1 + exact gradient steps"}
    finish(left, **across, ylabel="cosine with the gradient")
    finish(middle, None, **across, yscale="log", ylabel="length over the gradient's")
    finish(right, xscale="log", xlabel="k", ylabel="best less reached mean ln p (nats)", ylim=(0.0, None))
    right.set_xticks(SWEEPS, [str(k) for k in SWEEPS])
    right.minorticks_off()
    return figure


def drawn(digits: Digits) -> Figure:
    """Four rows of images."""
    figure, every = panels(SHOWN, 4, size=(0.75 * SHOWN, 3.2))
    for axes, image in zip(every, digits.shown.reshape(-1, 8, 8)):
        axes.imshow(image, cmap="Greys", vmin=0.0, vmax=1.0)
        axes.set(xticks=[], yticks=[])
    for axes, name in zip(every[::SHOWN], ("held back", "reconstructed", "with noise", "reconstructed")):
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize="small")
    return figure
