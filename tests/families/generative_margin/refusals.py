"""What generative margins refuse: data, distributions, pieces of (28)-(30), witnesses, new examples, and options."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.generative_margin import (
    CoordinateWorkingSets,
    CuttingPlanes,
    EntropicProximal,
    GenerativeMargin,
    OnlineWorkingSets,
    ProximalRSD,
    learned_network,
)
from convexstruct.families.generative_margin.constraints import AffineRows, Ceiling, Floor, KLBall, Tied
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, frequencies
from convexstruct.families.generative_margin.slack_penalties import (
    Capped,
    Exponential,
    Huber,
    Power,
    Quadratic,
)
from convexstruct.families.generative_margin.solvers.maximum_likelihood import maximum_likelihood
from convexstruct.families.generative_margin.solvers.working_sets import runs
from convexstruct.models.generative_margin import compact_dual, dual, one_slack, proximal
from tests.families.generative_margin.instances import random_witness, small_hmm, small_network
from tests.refusals import Door

CHAIN: dict[str, Any] = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3, "eta": 1.0}
C = np.array([*[0.5] * 2, *[0.5] * 4, *[1 / 3] * 6])
ONES = np.ones(12)

PLAIN, PARTLY, NETWORK = small_hmm(0), small_hmm(0, partly=True), small_network(0)
RESCALED, HUBER, FLOOR = (
    replace(PLAIN, rescaled=True),
    replace(PLAIN, h=Huber()),
    replace(PLAIN, constraints=[Floor(-3)]),
)
WITNESS = random_witness(PLAIN, np.random.default_rng(0), 0.01)
#: Every hidden position of 40 may cost another fraction of 1.
FRACTIONS = np.stack((np.zeros(40), np.random.default_rng(0).uniform(0.5, 1.0, size=40)), axis=1)
LONG = {"symbols": [[0] * 40], "states": [[0] * 40], "n_symbols": 1, "loss": [FRACTIONS], "rescaled": True}

ROWS = np.array([[0, 1], [1, 0], [1, 1]])


def changed(at: list[int], value: float) -> Vector:
    c = C.copy()
    c[at] = value
    return c


def observed(problem: GenerativeMargin) -> dict[str, Any]:
    """A witness with another label than the truth at an observed position."""
    labels = problem.examples.truth.copy()
    at = np.flatnonzero(~problem.examples.free)[0]
    labels[at] = 1 - labels[at]
    return {"labels": labels[None], "label_shares": np.ones((1, problem.n_examples))}


REFUSALS = (
    Door(
        GenerativeMargin.hmm,
        CHAIN,
        [
            ({"eta": 0.0}, "eta is 0.0, wanted a positive number"),
            ({"c": C[:-1]}, "c has shape (11,), wanted (12,)"),
            ({"c": changed([3], math.nan)}, "c contains NaN or infinity"),
            ({"c": changed([3], -0.5)}, "c of transition[0] has a negative entry (-0.5)"),
            ({"c": changed([4, 5], 0.0)}, "c of transition[1] is all zero, wanted a distribution"),
            ({"c": changed([6], 0.5)}, "c of emission[0] sums to 1.16667, wanted a distribution: 1"),
            ({"c": {"initial": C[:2]}}, "c has the tables initial, wanted ['emission', 'initial', 'transition']"),
            ({"c": {"initial": [1.0], "transition": np.eye(2), "emission": np.eye(2, 3)}}, "c['initial'] has shape"),
            ({"h": "square"}, "h is 'square', wanted a penalty of the slacks"),
            ({"h": Huber}, "h is "),
            ({"f": "kl"}, "f is 'kl', wanted"),
            ({"f": ReverseKL}, "f is "),
            ({"f": QuadraticPenalty(1.0, 0.0), "c": -ONES}, "c holds -1, wanted"),
            ({"f": QuadraticPenalty(-1.0, 0.0)}, "weight holds -1"),
            ({"f": QuadraticPenalty(1.0, np.zeros(3))}, "QuadraticPenalty centre"),
            ({"f": ReverseKL(0.0 * ONES)}, "ReverseKL q of initial holds 0, wanted positive"),
            ({"f": ReverseKL(0.5 * ONES)}, ("f is not convex below theta =", "wanted constraints with the Floor")),
            ({"constraints": [3]}, "constraints is 3"),
            ({"constraints": [Floor]}, "constraints is"),
            ({"constraints": [Floor(np.zeros(3))]}, "Floor has shape (3,)"),
            ({"constraints": [Ceiling(np.nan)]}, "Ceiling contains NaN"),
            ({"constraints": [Tied([[0, 99]])]}, "Tied groups[0]"),
            ({"constraints": [AffineRows(np.eye(3), np.zeros(3))]}, "AffineRows G"),
            ({"constraints": [KLBall(C, -1.0)]}, "KLBall radius"),
            ({"constraints": [KLBall(ONES, 1.0)]}, "KLBall centre"),
            ({"rescaled": 2}, "rescaled is"),
            (LONG, "decodes once for each: wanted multiples of one coarser unit"),
        ],
        names=("weight", "QuadraticPenalty", "ReverseKL", "Floor", "Ceiling", "Tied", "AffineRows", "KLBall", "table"),
    ),
    Door(
        PLAIN.predict,
        {"point": PLAIN.uniform(), "examples": [[0, 1]]},
        [
            ({"examples": [[0, 3]]}, "examples[0]"),
            ({"examples": []}, "examples"),
            ({"examples": [[]]}, "examples[0]"),
            ({"examples": 7}, "examples is 7"),
        ],
        "predict of a chain",
    ),
    Door(
        NETWORK.predict,
        {"point": NETWORK.uniform(), "examples": [[-1, 0, 0, 0, 0]]},
        [
            ({"examples": np.zeros((2, 4), int)}, "examples has shape (2, 4), wanted"),
            ({"examples": [[0] * 5]}, "examples[0] has no value missing, wanted at least one -1"),
            ({"examples": [[-1, 0, 0, 0, 9]]}, ("examples[0] gives node", "the value 9, wanted a whole number from 0")),
            ({"examples": [[-2, 0, 0, 0, 0]]}, "examples"),
        ],
        "predict of a network",
    ),
    Door(
        PLAIN.dual,
        {"dual_point": WITNESS},
        [
            (
                {"dual_point": {**WITNESS, "gibbs_shares": [[0.1, 0.1, 0.1, 0.2]] * 2}},
                "the same share in every example",
            ),
            ({"dual_point": {"gibbs": np.zeros((1, 12))}}, "dual_point['gibbs_loss'] has shape (0,), wanted (1,)"),
        ],
        "dual",
        names=("gibbs_shares",),
    ),
    Door(
        PARTLY.dual,
        {"dual_point": {}},
        [({"dual_point": observed(PARTLY)}, "differs from the truth where that is observed")],
        "dual, partly observed",
    ),
    Door(
        RESCALED.dual,
        {"dual_point": {}},
        [({"dual_point": WITNESS}, "wanted labels alone: the loss rescales the slacks")],
        "dual, rescaled",
    ),
    Door(
        solve,
        {"problem": PLAIN, "solver": ProximalRSD(), "max_iterations": 1},
        [
            ({"problem": HUBER}, "problem has h of (28)-(30), wanted (2)-(5) alone"),
            ({"problem": FLOOR, "solver": CoordinateWorkingSets()}, "problem has constraints of (28)-(30)"),
            ({"problem": HUBER, "solver": OnlineWorkingSets()}, "problem has h of (28)-(30)"),
            ({"problem": replace(RESCALED, h=Quadratic())}, "problem has h of (28)-(30)"),
            (
                {"problem": RESCALED, "solver": EntropicProximal()},
                "sums over labellings, which would take a pass for each",
            ),
            ({"problem": replace(RESCALED, h=Capped(9.0)), "solver": None}, "problem has the penalty capped, wanted"),
            ({"problem": replace(PLAIN, h=Capped(9.0)), "solver": CuttingPlanes()}, "problem has the penalty capped"),
            ({"problem": replace(PLAIN, constraints=[Tied([[0, 1]])]), "solver": CuttingPlanes()}, "problem has tied"),
        ],
    ),
    *(
        Door(build, {"problem": PLAIN}, [({"problem": FLOOR}, "problem has constraints of (28)-(30)")])
        for build in (dual, one_slack)
    ),
    Door(
        proximal,
        {"problem": PLAIN, "gamma": 1.0, "centre": None},
        [
            ({"problem": FLOOR}, "problem has constraints of (28)-(30)"),
            *(({"gamma": bad}, "gamma is") for bad in (0.0, -1.0, np.nan, np.inf)),
            ({"centre": np.full(12, -np.inf)}, "centre contains NaN or infinity, wanted a finite theta"),
            ({"centre": np.zeros(3)}, "theta has shape (3,)"),
        ],
        names=("theta",),
    ),
    Door(
        compact_dual,
        {"problem": PLAIN},
        [({"problem": replace(NETWORK, rescaled=True)}, "the flow over the loss is stated for chains")],
        names=("loss",),
    ),
    Door(
        Quadratic,
        {"kappa": 1.0, "slope0": 0.0},
        [
            ({"kappa": -1.0}, "kappa is -1, wanted a positive number"),
            ({"slope0": -0.5}, "slope0 is -0.5, wanted at least 0: h would fall"),
        ],
    ),
    Door(Power, {"p": 1.5}, [({"p": 0.5}, "p is 0.5, wanted above 1"), ({"p": 1.0}, "Linear")]),
    Door(Huber, {"delta": 1.0}, [({"delta": 0.0}, "delta is 0, wanted a positive number")]),
    Door(Exponential, {"scale": 1.0}, [({"scale": -2.0}, "scale is -2, wanted a positive number")]),
    Door(
        Capped,
        {"most": 1.0},
        [({"most": 0.0}, "most is 0, the hard margin, wanted"), ({"most": math.nan}, "most is nan")],
    ),
    Door(
        frequencies,
        {"features": PLAIN.features, "smoothing": 1.0, "kept": None},
        [
            ({"kept": {"start": ()}}, "kept has the tables start, wanted some of"),
            ({"smoothing": 0.0, "features": GenerativeMargin.hmm(**CHAIN).features}, "smoothing is 0, wanted above 0"),
        ],
    ),
    Door(
        maximum_likelihood,
        {"problem": PLAIN, "smoothing": 0.0},
        [({"smoothing": bad}, ("smoothing is", "wanted a number of at least 0")) for bad in (-1.0, math.nan, True)],
    ),
    Door(
        runs,
        {"working_sets": 2, "n_examples": 8, "partition": True},
        [
            ({"working_sets": 0}, "working_sets is 0, wanted a whole number from 1 to 8"),
            ({"working_sets": 9}, "working_sets is 9, wanted a whole number from 1 to 8"),
            ({"working_sets": True}, "working_sets is True, wanted a whole number from 1 to 8"),
            ({"working_sets": [(0, 4), (5, 8)]}, "leave out example 4"),
            ({"working_sets": [(0, 5), (4, 8)]}, "hold example 4 more than once"),
            ({"working_sets": [(0, 8), (3, 3)]}, "holds (3, 3), wanted 0 <= low < high <= 8"),
            ({"working_sets": [(0, 9)]}, "holds (0, 9)"),
        ],
    ),
    Door(
        learned_network,
        {"assignments": ROWS},
        [
            ({"assignments": [[0, np.nan], [1, 0]]}, "assignments contains NaN or infinity"),
            ({"assignments": [[0, -1], [1, 0]]}, "assignments[0, 1] is -1"),
            ({"assignments": [[0, 1]]}, "assignments has 1 row, wanted at least 2"),
            ({"assignments": []}, "assignments"),
            ({"assignments": [[0, 1], [1, 1]]}, "assignments is 1 in all rows of node 1, wanted two values"),
            ({"max_parents": -1}, "max_parents is -1"),
            ({"score": "aic"}, "score is 'aic'"),
            ({"rows_of_prior": 0.0}, "rows_of_prior is 0"),
            ({"nodes": ["a", "a"]}, "nodes has 1 different names, wanted 2"),
            ({"nodes": ["a"]}, "nodes"),
            ({"states": [2, 1]}, "assignments holds 1 for node 1, wanted less than its 1 states"),
            ({"states": [2]}, "states has shape"),
        ],
    ),
)
