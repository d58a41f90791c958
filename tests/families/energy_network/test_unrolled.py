"""The slides' energy network: gradients by finite differences, the backward pass as printed, steps that diverge."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.arrays import Matrix, Point, Vector
from convexstruct.families.energy_network import UnrolledEnergyNetwork
from convexstruct.families.energy_network.energy import sigmoid
from convexstruct.families.energy_network.unrolled import KINDS, LOSSES
from convexstruct.rounding import exact
from convexstruct.tolerances import DERIVATIVE, ROUNDING

#: Unequal lengths, as the index of eta matters.
STEPS = np.array([0.1, 0.3, 0.2, 0.4])


def drawn(kind: str = "plain", loss: str = "hamming", seed: int = 0, size: float = 0.7) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng([9, seed])
    x, labels = rng.normal(size=(6, 3)), rng.integers(2, size=(6, 4))
    problem = UnrolledEnergyNetwork(x, labels, 0.1, 3, STEPS, kind, loss)
    return problem, {name: size * rng.normal(size=shape) for name, shape in problem.shapes.items()}


def differences(problem: UnrolledEnergyNetwork, point: Point, step: float = 1e-6) -> dict[str, Any]:
    """dJ/dW by central differences of the whole unrolled loss, entry by entry."""
    found = {}
    for name, array in point.items():
        slopes = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            both = []
            for sign in (1.0, -1.0):
                moved = array.copy()
                moved[at] += sign * step
                both.append(float(problem.primal({**point, name: moved})))
            slopes[at] = (both[0] - both[1]) / (2.0 * step)
        found[name] = slopes
    return found


def apart(one: Point, other: Point) -> float:
    """The largest difference, relative to the largest entry."""
    most = max(np.abs(each).max() for each in other.values())
    return float(max(np.abs(one[name] - other[name]).max() for name in other) / most)


def exact_steps(problem: UnrolledEnergyNetwork, point: Point) -> list[Any]:
    """y_0, .., y_T (n, L), in 60 digits."""
    many = {name: np.array([mpmath.mpf(x) for x in each.ravel()]).reshape(each.shape) for name, each in point.items()}
    sigmoids = np.vectorize(lambda z: 1 / (1 + mpmath.exp(-z)), otypes=[object])
    every = []
    for x in problem.X:
        logits = many["B"] @ x
        each = [sigmoids(logits)]
        for eta in problem.steps.tolist():
            slope = many["A"].T @ (many["c"] * sigmoids(many["A"] @ each[-1] + many["b"])) - many["U"] @ x
            logits = logits - eta * slope
            y = sigmoids(logits) if problem.kind == "entropic" else each[-1] - eta * slope
            each.append(np.clip(y, 0, 1) if problem.kind == "projected" else y)
        every.append(each)
    return [np.array(step) for step in zip(*every)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_is_wrong_by_is_multiplied_by_those_that_follow(kind: str) -> None:
    """At a maximum of the energy, which is steep there, a step of 100 takes y hundreds of times as far away as it was:
    errors hold at each step, and would not if they were those of the step alone."""
    rng = np.random.default_rng(0)
    problem = UnrolledEnergyNetwork(np.ones((1, 1)), np.zeros((1, 1), int), 0.1, 1, np.full(2, 100.0), kind)
    short = 0
    for a, c in zip(rng.uniform(90.0, 100.0, size=20), rng.uniform(-0.011, -0.009, size=20)):
        point = {"A": a, "B": 0.1, "b": -a * sigmoid(0.1), "c": c, "U": 0.5 * a * c}
        point = {name: np.full(problem.shapes[name], value) for name, value in point.items()}
        scores, found = problem.forward(point, problem.X, carried=True)
        with mpmath.workdps(60):
            off = [abs(of - at.value) for of, at in zip(exact_steps(problem, point), found.y)]
        assert all((apart <= at.errors).all() for apart, at in zip(off, found.y))
        short += int((off[2] > (problem.slope(point, scores, exact(found.y[1].value)) * 100.0).errors).sum())
    assert short


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_j_is_its_definition_with_a_small_allowance_and_the_value_beside_the_gradient(kind: str, loss: str) -> None:
    problem, point = drawn(kind, loss, size=1.5 if kind == "projected" else 0.7)
    value, t, y = problem.primal(point), problem.T, exact_steps(problem, point)[-1].astype(float)

    def energies(y: Matrix) -> Vector:
        hidden = np.logaddexp(0.0, y @ point["A"].T + point["b"]) @ point["c"]
        return np.asarray(hidden - (y * (problem.X @ point["U"].T)).sum(axis=1))

    far = (y - t) ** 2 if loss == "squared" else np.where(t == 1, 1.0 - y, y)
    hinge = np.maximum(energies(t) - energies(y) + far.sum(axis=1), 0.0)
    size = sum(float((each**2).sum()) for each in point.values())
    assert float(value) == pytest.approx(hinge.sum() + 0.5 * problem.lam * size, rel=ROUNDING)
    assert problem.value_and_gradient(point)[0] == pytest.approx(float(value), rel=ROUNDING)
    assert value.allowance <= ROUNDING * float(value)
    assert float(problem.dual({})) == 0.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_whole_unrolled_loss(kind: str, loss: str) -> None:
    problem, point = drawn(kind, loss, size=1.5 if kind == "projected" else 0.7)
    truth = differences(problem, point)
    assert apart(problem.value_and_gradient(point)[1], truth) <= DERIVATIVE
    assert apart(problem.value_and_gradient(point, "central")[1], truth) <= DERIVATIVE


def test_the_error_of_a_difference_falls_with_r_and_with_its_square_where_it_is_central() -> None:
    problem, point = drawn()
    exact = problem.value_and_gradient(point)[1]
    for products, power in (("forward", 1), ("central", 2)):
        far, near = (apart(problem.value_and_gradient(point, products, r)[1], exact) for r in (1e-2, 1e-3))
        assert far / near == pytest.approx(10.0**power, rel=0.1)


def backward(problem: UnrolledEnergyNetwork, point: Point, printed: str) -> Point:
    """The backward pass of plain steps, with one error of the slides, all of them, or none."""
    scores, found = problem.forward(point, problem.X)
    y, steps, n_steps = found.y, problem.steps, len(problem.steps)
    hinge = problem.energies(point, scores, problem.T) - problem.energies(point, scores, y[-1]) + problem.losses(y[-1])
    active = (hinge > 0.0).astype(float)
    g = active[:, None] * (1.0 - 2.0 * problem.T - problem.slope(point, scores, y[-1]))
    total = {name: problem.lam * each for name, each in point.items()}

    def add(more: Point, factor: float) -> None:
        for name, each in more.items():
            total[name] = total[name] + factor * each

    add(problem.weighted(point, problem.T, active), 1.0)
    add(problem.weighted(point, y[-1], active), -1.0)
    every = printed == "all"
    for t in range(n_steps - 1, -1, -1):  # the term of y_{t+1}: H_Wy at y_t with dL/dy_{t+1}
        last = t == n_steps - 1
        eta = steps[t + 1] if (every or printed == "index") and not last else steps[t]
        if not (last and (every or printed == "last term")):
            add(problem.hessian_products(point, scores, y[t], g, "exact", 0.0)[0], -eta)
        g = g - steps[t] * problem.hessian_products(point, scores, y[t], g, "exact", 0.0)[1]
    of_start = {"B": (g * y[0] * (1.0 - y[0])).T @ problem.X}
    add(of_start, -steps[0] if every or printed == "start" else 1.0)
    return total


@pytest.mark.parametrize("printed", ["last term", "index", "start", "all"])
def test_the_backward_pass_as_printed_is_not_the_gradient(printed: str) -> None:
    problem, point = drawn()
    truth = differences(problem, point)
    assert apart(backward(problem, point, "none"), truth) <= DERIVATIVE
    assert apart(backward(problem, point, printed), truth) > 1e3 * DERIVATIVE


def test_the_mask_of_clipped_entries_is_needed() -> None:
    problem, point = drawn("projected", size=1.5)
    held = problem.forward(point, problem.X)[1].held
    assert any(each is not None and each.any() for each in held)
    assert apart(backward(problem, point, "none"), differences(problem, point)) > 1e3 * DERIVATIVE


def test_the_hinge_may_lie_below_the_loss_where_the_steps_stop_short() -> None:
    """E(W, y_T) > E(W, t): one small step from a bad start."""
    problem = UnrolledEnergyNetwork(np.ones((1, 1)), np.array([[1]]), 0.0, 1, np.array([0.01]))
    point = {name: np.zeros(shape) for name, shape in problem.shapes.items()} | {
        "U": np.array([[2.0]]), "B": np.array([[-3.0]]),
    }  # fmt: skip
    y = problem.relaxed(point)[0, 0]
    assert y < 0.5
    assert float(problem.primal(point)) == 0.0 < 1.0 - y


def test_steps_that_diverge_have_no_value_and_are_named() -> None:
    problem, point = drawn(size=4.0)
    wild = UnrolledEnergyNetwork(problem.X, problem.labels, 0.1, 3, np.array([0.1, 1e7, 0.1]), "plain")
    assert float(wild.primal(point)) == np.inf
    assert wild.value_and_gradient(point)[0] == np.inf
    with pytest.raises(ValueError, match=r"steps\[1\] is 1e\+07, after which y of example \d is .*, wanted shorter"):
        wild.predict(point)
    with pytest.raises(ValueError, match=r"steps\[1\]"):
        cs.solve(wild)


def test_steps_that_multiply_rounding_without_end_are_named_as_its_cause() -> None:
    """y stays in the cube, but no digit of it is known."""
    x, labels = np.random.default_rng(0).normal(size=(20, 3)), np.random.default_rng(1).integers(2, size=(20, 4))
    found = cs.solve(UnrolledEnergyNetwork(x, labels, 0.1, 3, np.full(3, 1e10)), max_iterations=50)
    assert found.primal == np.inf
    assert found.status is cs.Status.ROUNDING
    assert "rounding may change the upper bound by any amount; a step of 1.0e+10 multiplies" in found.message
