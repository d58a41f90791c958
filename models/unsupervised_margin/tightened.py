r"""Relaxations that are tighter than `reduced` (ours): two ways to raise its lower bound.

    tied            `full` with linear equations that tie C to D and M to D, and with any labels that are known
    keep_or_flip    min over (M, N) of a maximum over keeping or exchanging labels, as (3) is; never below 0

**Results** on three draws of three chains of length 3 (symbols of a two-state model that keeps its state with
probability 0.05 and emits the wrong symbol with probability 0.05; eps1 = 0.2, eps2 = 0.4), beside the least margin loss
of all balanced labellings, by Clarabel:

    beta = 0.01                        draw 0      draw 1      draw 2
    least margin loss                  0.0050      0.0050      0.0050
    keep_or_flip                       0.0043      0.0044      0.0039
    reduced (the paper's)              -1507       -1555       -1741
    tied, no label known               -1497       -1541       -1689
    tied, 1, 2, 5 of 9 labels known    -1323, -1072, -654 (draw 0); all 9 known: 0.0050

* Ties alone do not break the symmetry of labels, and hardly raise the bound. Uniform C and D satisfy the tie of C to D,
  so it changes nothing; the tie of M to D raises the bound by 1%. One known label (an anchor) breaks the symmetry and
  raises it by 12%. It stays far below 0 until the last label is known: it is too low by <M - CC', K> / (2 beta), where
  1 / (2 beta) is 50, so it is near the losses only if M is nearly CC'.
* keep_or_flip is near the least loss without any known label (0.43 of 0.50 at beta = 1, where the paper's is -10.6),
  because its maximum does not contain C or D. It needs one more semidefinite matrix, of size p1 + p2 + 1. For
  kappa = 2 it is (3) extended to chains.
* A tight bound shows which labels the criterion itself prefers: those equal to the symbols. On six draws of five chains
  of length 5 (moving with probability 0.9 or 0.8, beta = 0.01) the labels read from its M were the symbols every time;
  their loss is 0.0050, while that of the true states is up to 10. No relaxation of this criterion, however tight, would
  label better than y = x there.
* With labels known, the bound of keep_or_flip is higher (draw 0, 2 known: 0.0049). Where two known rows have the same
  label and the same symbol, G is singular for every M and N, and Clarabel may fail; SCS then solves it, slowly.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Labels, Point
from convexstruct.core.registry import one_family
from convexstruct.families.unsupervised_margin.exchanges import ExchangeMargin, polytope
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.tied import TiedMargin
from convexstruct.marginals.triplets import picks
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation
from convexstruct.models.unsupervised_margin.relaxation import FULL, Equivalences, Indicators, onto, recovered
from convexstruct.validation.arrays import wholes

#: Given in place of a label for a row whose label is not known.
UNKNOWN = -1


def read_known(problem: UnsupervisedMargin, known: ArrayLike | None) -> Labels:
    """Labels (p1,), -1 where unknown. ValueError unless there is one whole number from -1 to kappa - 1 for each row."""
    if known is None:
        return np.full(problem.n_rows, UNKNOWN, dtype=np.int64)
    why = "one label for each row, -1 where it is not known"
    return wholes("known", known, (problem.n_rows,), least=UNKNOWN, most=problem.n_labels - 1, why=why)


def _known(of: Indicators, y: Labels) -> dict[str, Equation]:
    """(10) for the rows and pairs whose labels y (p1,) are not known, and the equations of those that are known."""
    problem = of.problem
    fixed: list[Any] = []
    for i in np.flatnonzero(y != UNKNOWN):
        fixed += [of.C[i] == np.eye(of.kappa)[y[i]], of.M[i] == of.C[:, y[i]]]
    pairs = np.zeros(0, dtype=np.intp)
    if of.N is not None:
        both = (y[problem.previous] != UNKNOWN) & (y[problem.current] != UNKNOWN)
        pairs = np.flatnonzero(~both)
        table = y[problem.previous] * of.kappa + y[problem.current]
        for k in np.flatnonzero(both):
            fixed += [of.D[k] == np.eye(of.kappa**2)[table[k]], of.N[k] == of.D[:, table[k]]]
    parts = of.above(np.flatnonzero(y == UNKNOWN), pairs)
    if fixed:
        shown = r"C_{iu} = 1,\ M_{ij} = C_{ju} \text{ where row } i \text{ has the known label } u"
        parts["known"] = equation(fixed, shown)
    return parts


@one_family
def tied(problem: UnsupervisedMargin, known: ArrayLike | None = None) -> Formulation:
    r"""`full` with equations that every labelling satisfies, and with labels that are known (semi-supervised):

        sum_v D_k(u, v) = C_p(k)(u),  sum_u D_k(u, v) = C_c(k)(v)           C to D           "C D"
        M_c(k)p(k) = sum_u D_k(u, u)                                        M to D           "M D"
        C_i = indicator of u,  M_i = column u of C                          label u of i     "known"
        D_k = indicator of uv,  N_k = column uv of D                        both known

    Rows and pairs with known labels coincide with rows of I in [[I, C'], [C, M]], so they leave the semidefinite
    matrices, which would have no interior with them. One known label (an anchor) excludes no labelling up to renaming.

    Source: ours. Variables and parameters as `full` has them. Certified by `TiedMargin`, which gives an upper bound
    only where independent labels of the unknown rows can balance the known ones.

    Raises
    ------
    ValueError
        Unless known has one whole number from -1 to kappa - 1 for each row.
    """
    of, y = Indicators(problem), read_known(problem, known)
    parts = {**of.dual_of_theorem_1(), **of.balance(), **_known(of, y)}
    parts |= {**of.ones(), **of.rows(), **of.ties(), **of.signs()}
    if of.N is not None:
        to_previous, to_current = onto(of.kappa)
        previous, current = (picks(rows, of.p1) for rows in (problem.previous, problem.current))
        agree = [of.D @ to_previous == previous @ of.C, of.D @ to_current == current @ of.C]
        parts["C D"] = equation(agree, r"\sum_v D_k(u, v) = C_{p(k)}(u),\ \sum_u D_k(u, v) = C_{c(k)}(v)")
        same = cp.sum(of.D[:, np.arange(of.kappa) * (of.kappa + 1)], axis=1)
        near = cp.hstack([of.M[int(v), int(u)] for u, v in problem.pairs])
        parts["M D"] = equation(near == same, r"M_{c(k)p(k)} = \sum_u D_k(u, u)")
    return Formulation(
        name="tied",
        objective=cp.Minimize(of.p1 + of.inverse * of.value),
        objective_latex=FULL,
        parts=parts,
        variables={**of.matrices, **of.own},
        parameters=of.parameters,
        source="ours: paper 3, (9)-(11), with cuts and known labels",
        recover=lambda formulation: _of_ties(of, y, formulation),
    )


def _of_ties(of: Indicators, y: Labels, formulation: Formulation) -> Recovered:
    """All variables and multipliers as `TiedMargin` reads them, the multipliers in the units of beta omega."""
    problem, beta = of.present(), float(of.beta.value)
    at = TiedMargin(problem, y)
    point, witness = map(dict, at.trivial())
    point |= {name: np.asarray(each.value) for name, each in (of.matrices | of.indicators).items()}
    if of.N is not None:
        point["b"] = np.asarray(of.own["b"].value)

    def of_equation(label: str) -> list[Any]:
        return [beta * np.asarray(c.dual_value) for c in formulation.equations.get(label, ())]

    for name, found in zip(("mu", "nu"), of_equation("8")):
        point[name] = witness[name] = found
    witness |= {name: 0.5 * np.asarray(each) for name, each in of.witness().items()}  # of <K, M>: 2 beta
    semidefinite = iter(of_equation("10"))
    for name, kept in zip(("Z_C", "Z_D"), at.free):
        if kept.any():
            witness[name] = next(semidefinite)
    witness |= dict(zip(("A_previous", "A_current"), of_equation("C D")))
    witness |= dict(zip(("A_same",), of_equation("M D")))
    fixed = iter(of_equation("known")[1::2])
    for name, kept, size in zip("FH", at.free, (of.p1, of.p2)):
        witness[name] = np.zeros((size, size))
        for i in np.flatnonzero(~kept):
            witness[name][i] = next(fixed)
    return Recovered(at, point, witness)


class Exchanges:
    """The maximum over labels kept or exchanged, in CVXPY; derived in `families.unsupervised_margin.exchanges`.

    A, r : A x <= r. gain : (p1 + p2,), a of a'x. size : p1 + p2.
    """

    def __init__(self, problem: UnsupervisedMargin) -> None:
        self.problem = problem
        self.size = problem.n_rows + problem.n_pairs
        self.gain = np.concatenate([np.ones(problem.n_rows), np.zeros(problem.n_pairs)])
        self.A, self.r = polytope(problem)

    def gram(self, M: Any, N: Any) -> Any:
        """G (p1 + p2, p1 + p2), linear in M and N (numbers, or CVXPY's expressions)."""
        problem, k = self.problem, self.problem.n_labels
        q = k - 1.0
        own = cp.multiply(problem.gram, (k**2 * M - k) / q**2)
        if not problem.n_pairs:
            return own
        s, t = (picks(rows, problem.n_rows) for rows in (problem.current, problem.previous))
        c, p = s @ M @ s.T, t @ M @ t.T
        # products of g (x) c and of c (x) g with themselves, with one another, and with g (x) g
        first, second = (k**2 * N - k * p) / q**2, (k**2 * N - k * c) / q**2
        across = (k**2 * N - k * (c + p) + 1) / q**2
        both, once = (k**4 * N - k**3 * (c + p) + k**2) / q**4, (k**3 * N - k**2 * (c + p) + k) / q**3
        mixed = s.T @ across @ t
        rows = own + s.T @ first @ s + t.T @ second @ t + mixed + mixed.T
        side = -(s + t).T @ once
        return cp.bmat([[rows, side], [side.T, both]])


@one_family
def keep_or_flip(problem: UnsupervisedMargin, known: ArrayLike | None = None) -> Formulation:
    r"""A relaxation in (M, N) alone, which does not collapse, because it has no C and D:

        min  r'z + tau
        s.t. [[G(M, N) / beta, a - A'z], [(a - A'z)', 2 tau]] semidefinite,   z >= 0                 "G"
             M - 11'/kappa >= 0,  N - 11'/kappa^2 >= 0, diag(M) = e, diag(N) = e, (9), (11), signs

    by the dual of the maximum that `Exchanges` states, a'x = e'lambda. It is a lower bound on the margin loss of every
    balanced labelling, and at least 0, because lambda = 0 and delta = 0 keep all labels. For kappa = 2 the maximum is
    the margin loss itself where M and N are a labelling's, and without pairs the whole is (3). Certified by
    `ExchangeMargin`, unless labels are known.

    If labels are known, C and D are variables again, with (10) in full, C e = e, D e = e and "known" as `tied` has
    them; the known labels keep C from being uniform.

    Source: ours, after paper 3, (3). Variables M (p1, p1), N (p2, p2), z, tau; parameters eps1, eps2. Where labels are
    known, the value is the solver's claim and is not certified.

    Raises
    ------
    ValueError
        Unless known has one whole number from -1 to kappa - 1 for each row.
    """
    y = read_known(problem, known)
    labelled = bool((y != UNKNOWN).any())
    of, exchanges = Indicators(problem) if labelled else Equivalences(problem), Exchanges(problem)
    z, tau = cp.Variable(len(exchanges.r), nonneg=True, name="z"), cp.Variable(name="tau")
    side = cp.reshape(exchanges.gain - exchanges.A.T @ z, (exchanges.size, 1), order="C")
    corner = cp.reshape(2 * tau, (1, 1), order="C")
    block = cp.bmat([[exchanges.gram(of.M, of.N) / problem.beta, side], [side.T, corner]])
    shown = r"\begin{bmatrix} G(M, N) / \beta & a - A'z \\ (a - A'z)' & 2\tau \end{bmatrix} \succeq 0,\ z \ge 0"
    parts: dict[str, Equation] = {"G": equation(block >> 0, shown), **of.balance()}
    parts |= {**_known(of, y), **of.rows()} if isinstance(of, Indicators) else of.lifted()
    parts |= {**of.ones(), **of.ties(), **of.signs()}
    return Formulation(
        name="keep_or_flip",
        objective=cp.Minimize(exchanges.r @ z + tau),
        objective_latex=r"\min_{M, N, z, \tau}\quad r'z + \tau",
        parts=parts,
        variables={**of.matrices, **(of.indicators if isinstance(of, Indicators) else {}), "z": z, "tau": tau},
        parameters={name: value for name, value in of.parameters.items() if name != "beta"},
        source="ours, after paper 3, (3)",
        recover=None if labelled else lambda formulation: _of_exchanges(of, z, formulation.dual_values["G"]),
    )


def _of_exchanges(of: Equivalences, z: Any, multiplier: Any) -> Recovered:
    """M, N, z and the multiplier of the semidefinite matrix, [[W, -x], [-x', 1]] / 2."""
    read = recovered(of)
    found = with_multiplier(multiplier)
    point = {**read.point, "x": found["x"], "z": np.asarray(z.value)}
    return Recovered(ExchangeMargin(of.present()), point, {**of.witness(), **found})


def with_multiplier(multiplier: Any) -> Point:
    """x and W of [[W, -x], [-x', 1]] / 2, scaled by its last entry, which a solver returns with an error."""
    whole = np.asarray(multiplier, dtype=np.float64)
    whole = 0.5 * (whole + whole.T) / whole[-1, -1]
    return {"x": -whole[:-1, -1], "W": whole[:-1, :-1]}
