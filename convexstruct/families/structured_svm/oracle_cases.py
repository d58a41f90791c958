r"""Cases of structural SVMs with the user's own oracle: a ranking, a matching, an integer program.

**Precision at k** (Joachims 2005, "A support vector method for multivariate performance measures", section 4.3). x (n,
d) holds n documents, of which k are relevant; y (n,) marks k of them. f(x, y) = sum_j y_j x_j, and the loss is 1 minus
the share of the k documents that are relevant. The k documents of the largest <w, x_j> - y_j / k are the argmax.

**Matching** (Taskar, Chatalbashev, Koller, Guestrin 2005, "Learning structured prediction models: a large margin
approach", for words of two languages). x (n, n, d) holds the features of each pair; y is a permutation, f(x, y) = sum_u
x[u, y_u], the loss counts wrong partners. An assignment of largest weight is the argmax.

**A summary within a budget** (Gillick, Favre 2009, "A scalable global model for summarization", whose integer program
is trained as Sipos, Shivaswamy, Joachims 2012 do). y marks sentences whose costs sum to at most the budget; f(x, y) is
the sum of the features of the concepts that some chosen sentence has; the loss counts the sentences that are wrongly
chosen or left out. HiGHS maximises it over y and z in {0, 1}, z_c = max_j y_j has_jc. Its bound is one up to its dual
tolerance, which is added: the oracle is not declared exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.optimize as so

from convexstruct.arrays import Labels, Vector
from convexstruct.core.cases import Case, Instance
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.problem import StructuredSVM

ANY_ORACLE = "structural SVM with any oracle"
#: HiGHS's tolerance of reduced costs (its option dual_feasibility_tolerance): for each variable in [0, 1] its bound may
#: be too low by as much.
DUAL_TOLERANCE = 1e-7

# -- precision at k ----------------------------------------------------------------------------------------------------


def documents(x: Any, y: Labels) -> Vector:
    """The sum of the features of the documents marked."""
    if y.max() > 1:
        raise ValueError("y marks documents by 0 and 1")
    return np.asarray(y @ x)


def precision_loss(y: Labels, predicted: Labels) -> float:
    """1 - precision at k; ValueError unless as many are marked as are relevant."""
    if predicted.sum() != y.sum():
        raise ValueError(f"{predicted.sum()} documents are marked, wanted {y.sum()}")
    return 1.0 - float(y @ predicted) / float(y.sum())


def most_relevant(x: Any, y: Labels | None, w: Vector, k: int = 3) -> Labels:
    """The k documents of the largest score, less the loss that each relevant one saves."""
    score = x @ w - (0.0 if y is None else y / y.sum())
    marks = np.zeros(len(x), dtype=np.int64)
    marks[np.argsort(-score, kind="stable")[: k if y is None else y.sum()]] = 1
    return marks


def ranking(seed: int) -> Instance:
    rng = np.random.default_rng([81, seed])
    w = rng.normal(size=4)
    examples = []
    for n in (7, 8, 9, 6):
        x = rng.normal(size=(n, 4))
        examples.append((x, most_relevant(x, None, w + rng.normal(size=4))))
    weights = rng.uniform(0.5, 2.0, size=4)
    return Instance(
        StructuredSVM.from_oracle(
            documents, precision_loss, most_relevant, examples, exact=True, weights=weights, C_mean=20.0
        )
    )


# -- matching ----------------------------------------------------------------------------------------------------------


def pairs(x: Any, y: Labels) -> Vector:
    """The sum of the features of the pairs (u, y_u)."""
    if sorted(y.tolist()) != list(range(len(x))):
        raise ValueError(f"y is no permutation of {len(x)}")
    return np.asarray(x[np.arange(len(x)), y].sum(axis=0))


def wrong_partners(y: Labels, predicted: Labels) -> float:
    return float((y != predicted).sum())


def heaviest_matching(x: Any, y: Labels | None, w: Vector) -> Labels:
    """The permutation of the largest sum of <w, x[u, y_u]>, plus 1 for each wrong partner."""
    weight = x @ w
    if y is not None:
        weight = weight + (np.arange(len(x)) != y[:, None])
    return np.asarray(so.linear_sum_assignment(weight, maximize=True)[1])


def matching(seed: int) -> Instance:
    rng = np.random.default_rng([82, seed])
    w = rng.normal(size=3)
    examples = []
    for n in (4, 5, 3, 4, 1):
        x = rng.normal(size=(n, n, 3))
        examples.append((x, heaviest_matching(x + 0.7 * rng.normal(size=x.shape), None, w)))
    return Instance(StructuredSVM.from_oracle(pairs, wrong_partners, heaviest_matching, examples, exact=True, lam=0.5))


# -- a summary within a budget -----------------------------------------------------------------------------------------


def covered(x: Mapping[str, Any], y: Labels) -> Vector:
    """The sum of the features of the concepts that some chosen sentence has."""
    if y.max() > 1 or y @ x["cost"] > x["budget"]:
        raise ValueError("y marks sentences by 0 and 1, within the budget")
    return np.asarray((y @ x["has"] > 0) @ x["concepts"])


def wrong_sentences(y: Labels, predicted: Labels) -> float:
    return float((y != predicted).sum())


def best_summary(x: Mapping[str, Any], y: Labels | None, w: Vector) -> tuple[Labels, float]:
    """The summary of the largest value by HiGHS, and an upper bound on that value."""
    has, (n, m) = x["has"], x["has"].shape
    concept = x["concepts"] @ w
    sentence = np.zeros(n) if y is None else 1.0 - 2.0 * y  # a wrong sentence counts 1, also if left out
    rows = [(x["cost"], np.zeros(m), -np.inf, x["budget"])]
    for c in range(m):
        rows.append((-has[:, c], np.eye(m)[c], -np.inf, 0.0))  # z_c <= sum_j y_j has_jc
        rows += [(-np.eye(n)[j], np.eye(m)[c], 0.0, np.inf) for j in np.flatnonzero(has[:, c])]  # z_c >= y_j
    matrix = np.array([np.concatenate((a, b)) for a, b, *_ in rows])
    limits = so.LinearConstraint(matrix, [low for *_, low, _ in rows], [high for *_, high in rows])
    value = np.concatenate((sentence, concept))
    found = so.milp(
        -value, constraints=limits, integrality=np.ones(n + m), bounds=so.Bounds(0, 1), options={"mip_rel_gap": 0.0}
    )
    bound = -found.mip_dual_bound + DUAL_TOLERANCE * (n + m)
    return np.round(found.x[:n]).astype(np.int64), float(bound + (0.0 if y is None else y.sum()))


def summary(seed: int) -> Instance:
    rng = np.random.default_rng([83, seed])
    w = np.array([1.0, -0.5, 0.3])
    examples = []
    for n, m in ((5, 4), (6, 5), (4, 3)):
        x = {
            "has": (rng.random((n, m)) < 0.4).astype(np.int64),
            "concepts": rng.normal(size=(m, 3)),
            "cost": rng.integers(1, 4, size=n),
            "budget": 6,
        }
        examples.append((x, best_summary(x, None, w + 0.5 * rng.normal(size=3))[0]))
    return Instance(StructuredSVM.from_oracle(covered, wrong_sentences, best_summary, examples, C=2.0))


# -- all labellings ----------------------------------------------------------------------------------------------------


def marks(example: Any) -> list[Labels]:
    """All 0-1 labellings of an example."""
    return [np.array(each) for each in itertools.product((0, 1), repeat=len(example.y))]


def permutations(example: Any) -> list[Labels]:
    return [np.array(each) for each in itertools.permutations(range(len(example.y)))]


def every_labelling(problem: OracleSVM, candidates: Callable[[Any], list[Labels]]) -> list[list[Labels]]:
    """For each example those candidates that its functions do not refuse: the reference asks no oracle."""
    found: list[list[Labels]] = []
    for i, example in enumerate(problem.features.examples):
        found.append([])
        for labels in candidates(example):
            try:
                problem.features.met(i, labels)
            except ValueError:
                continue
            found[-1].append(labels)
    return found


def written_out(candidates: Callable[[Any], list[Labels]]) -> Callable[[Instance], Mapping[str, Any]]:
    """The argument of the formulation `some_labellings`."""

    def arguments(instance: Instance) -> Mapping[str, Any]:
        assert isinstance(instance.problem, OracleSVM)
        return {"labellings": every_labelling(instance.problem, candidates)}

    return arguments


ORACLE_CASES: tuple[Case, ...] = (
    Case("oracle-ranking", ANY_ORACLE, "(P), margin scaling", "precision at k by sorting, declared exact; weights",
         ranking, "some_labellings", arguments=written_out(marks)),
    Case("oracle-matching", ANY_ORACLE, "(P), margin scaling", "bipartite matching, declared exact; lam of paper 2",
         matching, "some_labellings", arguments=written_out(permutations)),
    Case("oracle-ilp", ANY_ORACLE, "(P), margin scaling", "an integer program with a bound, not declared exact",
         summary, "some_labellings", arguments=written_out(marks)),
)  # fmt: skip
