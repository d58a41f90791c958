r"""The relaxation (9)-(11) of paper 3: in full, with the indicators C and D, and reduced by its symmetry to M and N.

    full          min over (M, N, C, D) of omega(M, N, C, D), Theorem 1's maximum written as a minimum by its dual
    reduced       the same optimum over (M, N) alone
    multiclass    section 2.2: `full` for problems without pairs

Rows are the positions of all sequences, end to end. In print a pair reads (current, previous); here column u kappa + v
of D belongs to the labels u of the previous row and v of the current one, as in `structured_svm.marginals`.

**Errata (paper 3).** (9) is missing in the scan; it is restored here. In (10) and section 2.2 the row sums C e = e and
D e = e are missing: ``full(problem).without("rows")`` states what is printed, and C = D = 0, which is feasible there,
makes the optimum lower still.

**Collapse.** omega, (9), (10) and (11) stay the same when labels are renamed. The mean of a solution over all
renamings is therefore a solution, and its C is 1/kappa. With that C the maximum of Theorem 1 is |1'D|^2 / (2 beta)
plus terms without D, least at D = 1/kappa^2, which every feasible N allows: D e = e makes N >= DD' imply
N >= 11'/kappa^2. So C and D carry no information on the labels. Without them the problem is `reduced`, in which beta
only scales the part of the objective that depends on M and N.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Index, Matrix, Point
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.marginals.triplets import picks
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, Recovered, equation

PAPER = "paper 3: Xu, Wilkinson, Southey, Schuurmans, Discriminative unsupervised learning of structured predictors"

#: LaTeX of (9) to (11), and of Theorem 1's objective in the full relaxation.
BALANCE = (
    r"\big( \tfrac{1}{\kappa} - \epsilon_1 \big) p_1 e \le M e \le \big( \tfrac{1}{\kappa} + \epsilon_1 \big) p_1 e",
    r"\big( \tfrac{1}{\kappa^2} - \epsilon_2 \big) p_2 e \le N e"
    r" \le \big( \tfrac{1}{\kappa^2} + \epsilon_2 \big) p_2 e",
)
TIES = r"N_{kl} \le M_{c(k)c(l)},\ N_{kl} \le M_{p(k)p(l)},\ N_{kl} \ge M_{c(k)c(l)} + M_{p(k)p(l)} - 1, \quad k \ne l"
FULL = (
    r"\min\quad p_1 + \tfrac{1}{\beta} \Big( \tfrac12 \|U\|^2 + \tfrac12 \|v\|^2 + e'\theta"
    r" - \tfrac12 \langle K, M \rangle - \tfrac12 \langle E, N \rangle \Big)"
)


class Equivalences:
    """Variables M (p1, p1) and N (p2, p2), the parameters beta, eps1 and eps2, and the equations on M and N alone.

    N is None where the problem has no pairs. kept : by equation the constraints whose multipliers `witness` reads.
    """

    def __init__(self, problem: UnsupervisedMargin) -> None:
        self.problem = problem
        self.p1, self.p2, self.kappa = problem.n_rows, problem.n_pairs, problem.n_labels
        self.M = cp.Variable((self.p1, self.p1), symmetric=True, name="M")
        self.N = cp.Variable((self.p2, self.p2), symmetric=True, name="N") if self.p2 else None
        self.beta = cp.Parameter(pos=True, name="beta", value=problem.beta)
        self.inverse = cp.CallbackParam(callback=lambda: 1.0 / self.beta.value, pos=True, name="1/beta")
        self.eps1 = cp.Parameter(nonneg=True, name="eps1", value=problem.label_balance)
        self.eps2 = cp.Parameter(nonneg=True, name="eps2", value=problem.pair_balance)
        self.kept: dict[str, list[Any]] = {}

    @property
    def matrices(self) -> dict[str, Any]:
        """M and N by name."""
        return {"M": self.M} | ({} if self.N is None else {"N": self.N})

    @property
    def parameters(self) -> dict[str, Any]:
        return {"beta": self.beta, "eps1": self.eps1} | ({} if self.N is None else {"eps2": self.eps2})

    @property
    def similarity(self) -> Any:
        """<K, M> + <E, N>."""
        value = cp.sum(cp.multiply(self.problem.gram, self.M))
        return value if self.N is None else value + cp.sum(self.N)

    def of_pairs(self, rows: Index) -> Any:
        """M (p2, p2) between the given rows of the pairs, one of each: all previous rows, or all current ones."""
        return self.M[rows][:, rows]

    def balance(self) -> dict[str, Equation]:
        """(9)."""
        kinds = [(self.M, 1 / self.kappa, self.eps1, self.p1)]
        if self.N is not None:
            kinds.append((self.N, self.kappa**-2, self.eps2, self.p2))
        parts = []
        for matrix, share, eps, p in kinds:
            sums = cp.sum(matrix, axis=1)
            parts += [p * (share - eps) <= sums, sums <= p * (share + eps)]
        self.kept["9"] = parts
        return {"9": equation(parts, r",\ ".join(BALANCE[: len(kinds)]))}

    def lifted(self) -> dict[str, Equation]:
        """(10) at C = 1/kappa and D = 1/kappa^2."""
        parts = [self.M - 1 / self.kappa >> 0] + ([] if self.N is None else [self.N - self.kappa**-2.0 >> 0])
        shown = [r"M \succeq \tfrac{1}{\kappa} ee'", r"N \succeq \tfrac{1}{\kappa^2} ee'"][: len(parts)]
        return {"10": equation(parts, r",\ ".join(shown))}

    def ones(self) -> dict[str, Equation]:
        """The unit diagonals of (10)."""
        shown = r",\ ".join(rf"\mathrm{{diag}}({name}) = e" for name in self.matrices)
        self.kept["diag"] = [cp.diag(each) == 1 for each in self.matrices.values()]
        return {"diag": equation(self.kept["diag"], shown)}

    def ties(self) -> dict[str, Equation]:
        """(11) above the diagonal, on which it holds with equality."""
        if self.N is None or self.p2 < 2:
            return {}
        n, current, previous = (
            cp.upper_tri(each)
            for each in (self.N, self.of_pairs(self.problem.current), self.of_pairs(self.problem.previous))
        )
        self.kept["11"] = [n <= current, n <= previous, n >= current + previous - 1]
        return {"11": equation(self.kept["11"], TIES)}

    def signs(self) -> dict[str, Equation]:
        """M >= 0 and N >= 0 above their unit diagonals; that they are at most 1 follows from (10)."""
        several = [(name, each) for name, each in self.matrices.items() if each.shape[0] > 1]
        shown = r",\ ".join(rf"{name} \ge 0" for name, _ in several)
        self.kept["signs"] = [cp.upper_tri(each) >= 0 for _, each in several]
        return {"signs": equation(self.kept["signs"], shown)} if several else {}

    def witness(self) -> Point:
        """The multipliers of (9), (11), the diagonals and the signs as the problem reads them: times 2 beta, because
        the problem's dual has the objective <K, M> + <E, N> in place of omega."""
        p1, p2, size = self.p1, self.p2, 2.0 * float(self.beta.value)

        def of(label: str, at: int) -> Any:
            return size * np.asarray(self.kept[label][at].dual_value, dtype=np.float64).ravel()

        def upper(label: str, at: int, n: int) -> Matrix:
            """Multipliers of the entries above the diagonal in their places; the problem takes them for both halves."""
            matrix = np.zeros((n, n))
            if label in self.kept and at < len(self.kept[label]):
                matrix[np.triu_indices(n, 1)] = of(label, at)
            return matrix

        found = {"P": -upper("signs", 0, p1), "u": of("9", 1) - of("9", 0), "y": of("diag", 0)}
        if self.N is None:
            return found
        below_current, below_previous, above = (upper("11", at, p2) for at in range(3))
        return found | {
            "v": of("9", 3) - of("9", 2),
            "z": of("diag", 1),
            "W_current": above - below_current,
            "W_previous": above - below_previous,
            "W_pair": below_current + below_previous - above - upper("signs", 1, p2),
        }

    def present(self) -> UnsupervisedMargin:
        """The problem with the present beta, eps1 and eps2, against which the solution is certified."""
        balances = float(self.eps1.value), float(self.eps2.value)
        return replace(self.problem, beta=float(self.beta.value), label_balance=balances[0], pair_balance=balances[1])


def onto(kappa: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Matrices (kappa^2, kappa) that sum a table of pairs of labels to its previous and to its current label."""
    ones, each = np.ones((kappa, 1)), np.eye(kappa)
    return sp.csr_array(np.kron(each, ones)), sp.csr_array(np.kron(ones, each))


class Indicators(Equivalences):
    """The variables of `full`: M, N, C (p1, kappa), D (p2, kappa^2) and those of the dual of Theorem 1's maximum.

    For given (M, N, C, D) the maximum over mu and nu of Theorem 1 is, by the duality of quadratic programs,

        p1 + 1/beta min [ 1/2 |U|^2 + 1/2 |v|^2 + e'theta - 1/2 <K, M> - 1/2 <E, N> ]
        s.t. theta_i >= (K C - X U - beta C)_iu + sum of a_k(u) over the pairs k with current row i,
                                                + sum of b_k(u) over the pairs k with previous row i,
             a_k(u) + b_k(u') >= (1'D - v)_u'u                         for every pair k, u' previous, u current,

    U (d, kappa) = X'mu and v (kappa^2,) = 1'nu at the optimum, theta (p1,), a and b (p2, kappa). mu and nu are the
    multipliers of the two constraints; a and b are those of nu's agreement with mu at the current and the previous row.
    """

    def __init__(self, problem: UnsupervisedMargin) -> None:
        super().__init__(problem)
        x = problem.root
        self.C = cp.Variable((self.p1, self.kappa), name="C")
        self.U = cp.Variable((x.shape[1], self.kappa), name="U")
        self.theta = cp.Variable(self.p1, name="theta")
        scores = problem.gram @ self.C - x @ self.U - self.beta * self.C
        self.value = cp.sum_squares(self.U) / 2 + cp.sum(self.theta) - self.similarity / 2
        self.matched: list[Any] = []
        self.own: dict[str, Any] = {"C": self.C, "U": self.U, "theta": self.theta}
        if self.N is not None:
            self.D = cp.Variable((self.p2, self.kappa**2), name="D")
            self.v = cp.Variable(self.kappa**2, name="v")
            a, b = (cp.Variable((self.p2, self.kappa), name=name) for name in "ab")
            previous, current = (picks(rows, self.p1) for rows in (problem.previous, problem.current))
            to_previous, to_current = onto(self.kappa)
            scores = scores + current.T @ a + previous.T @ b
            total = cp.reshape(cp.sum(self.D, axis=0) - self.v, (1, self.kappa**2), order="C")
            self.matched = [np.ones((self.p2, 1)) @ total <= a @ to_current.T + b @ to_previous.T]
            self.value += cp.sum_squares(self.v) / 2
            self.own |= {"D": self.D, "v": self.v, "a": a, "b": b}
        self.matched.insert(0, scores <= cp.reshape(self.theta, (self.p1, 1), order="C") @ np.ones((1, self.kappa)))

    @property
    def indicators(self) -> dict[str, Any]:
        """C and D by name."""
        return {name: self.own[name] for name in "CD" if name in self.own}

    def dual_of_theorem_1(self) -> dict[str, Equation]:
        """The constraints on theta, a and b."""
        shown = r"\theta_i \ge (KC - XU - \beta C)_{iu}"
        if self.N is not None:
            shown += r" + \sum_{k : c(k) = i} a_k(u) + \sum_{k : p(k) = i} b_k(u),\ "
            shown += r"a_k(u) + b_k(u') \ge (\mathbf{1}'D - v)_{u'u}"
        return {"8": equation(self.matched, shown)}

    def above(self) -> dict[str, Equation]:
        """M >= CC' and N >= DD' of (10), as one semidefinite matrix each."""
        blocks, shown = [], []
        for (name, indicator), (above, matrix) in zip(self.indicators.items(), self.matrices.items(), strict=True):
            blocks.append(cp.bmat([[np.eye(indicator.shape[1]), indicator.T], [indicator, matrix]]) >> 0)
            shown.append(rf"{above} \succeq {name}{name}'")
        return {"10": equation(blocks, r",\ ".join(shown))}

    def rows(self) -> dict[str, Equation]:
        """C e = e and D e = e, which are not in print."""
        shown = r",\ ".join(f"{name} e = e" for name in self.indicators)
        sums = [cp.sum(each, axis=1) == 1 for each in self.indicators.values()]
        return {"rows": equation(sums, shown + r" \quad \text{(not in print)}")}

    def signs(self) -> dict[str, Equation]:
        shown = r",\ ".join(rf"{name} \ge 0" for name in (*self.indicators, *self.matrices))
        of_matrices = [part for each in super().signs().values() for part in each.constraints]
        return {"signs": equation([each >= 0 for each in self.indicators.values()] + of_matrices, shown)}


def recovered(of: Equivalences) -> Recovered:
    """M, N and the multipliers of the constraints on them alone.

    They are a witness for `full` too: its Lagrangian at these multipliers is symmetric in the labels and convex in
    (C, D), as omega is. Hence C = 1/kappa and D = 1/kappa^2 minimise it, and there it is the Lagrangian of `reduced`.
    """
    point: Point = {"N": np.zeros((0, 0))} | {name: np.asarray(each.value) for name, each in of.matrices.items()}
    return Recovered(of.present(), point, of.witness())


@stated("the SDP in (M, N) that symmetry leaves", PAPER, "(9)-(11), corrected")
def reduced(problem: UnsupervisedMargin) -> Formulation:
    r"""`full` reduced by its symmetry to M and N, with the same optimum:

        min  p1 (1 - 1/kappa) - (<K, M> + <E, N> - 1'K1/kappa - p2^2/kappa^2) / (2 beta)
        s.t. M - 11'/kappa >= 0,  N - 11'/kappa^2 >= 0  semidefinite                         "10"
             diag(M) = e,  diag(N) = e                                                       "diag"
             (9), (11), M >= 0, N >= 0                                                       "9", "11", "signs"

    The solutions do not depend on beta, which scales the part of the objective that depends on M and N. The optimum is
    a lower bound on the margin loss of every balanced labelling. Where beta is small it is far below 0, while a margin
    loss is never negative.

    Source: paper 3, (9)-(11), corrected and reduced (ours). Variables M (p1, p1), N (p2, p2); parameters beta, eps1,
    eps2.
    """
    of = Equivalences(problem)
    k = of.kappa
    uniform = float(problem.gram.sum()) / k + of.p2**2 / k**2
    return Formulation(
        name="reduced",
        objective=cp.Minimize(of.p1 * (1 - 1 / k) - of.inverse * (of.similarity - uniform) / 2),
        objective_latex=r"\min_{M, N}\quad p_1 \big( 1 - \tfrac{1}{\kappa} \big) - \tfrac{1}{2\beta} \Big("
        r" \langle K, M \rangle + \langle E, N \rangle - \tfrac{1}{\kappa} e'Ke - \tfrac{p_2^2}{\kappa^2} \Big)",
        parts={**of.balance(), **of.lifted(), **of.ones(), **of.ties(), **of.signs()},
        variables=of.matrices,
        parameters=of.parameters,
        source="paper 3, (9)-(11), corrected, reduced by its symmetry",
        recover=lambda _: recovered(of),
    )


@stated("Theorem 1 relaxed, with the indicators C and D", PAPER, "(8)-(11), corrected")
def full(problem: UnsupervisedMargin) -> Formulation:
    r"""The relaxation as paper 3 states it, with (9) restored and the row sums of C and D:

        min  p1 + ( |U|^2/2 + |v|^2/2 + e'theta - <K, M>/2 - <E, N>/2 ) / beta
        s.t. the dual of Theorem 1's maximum, see `Indicators`                                            "8"
             (9)                                                                                          "9"
             M >= CC',  N >= DD',  as [[I, C'], [C, M]] and [[I, D'], [D, N]] semidefinite                 "10"
             diag(M) = e,  diag(N) = e                                                                    "diag"
             C e = e,  D e = e                                          not in print                      "rows"
             (11)                                                                                         "11"
             C, D, M, N >= 0                                                                              "signs"

    In "8" beta multiplies C, rather than 1/beta the kernel, so that the data stay well scaled for small beta. The
    multipliers of "8" are mu and nu.

    Source: paper 3, Theorem 1 and (9)-(11), corrected. Variables M, N, C, D, U (d, kappa), v, theta (p1,), a, b (p2,
    kappa); parameters beta, eps1, eps2.
    """
    of = Indicators(problem)
    return Formulation(
        name="full",
        objective=cp.Minimize(of.p1 + of.inverse * of.value),
        objective_latex=FULL,
        parts={
            **of.dual_of_theorem_1(), **of.balance(), **of.above(), **of.ones(), **of.rows(), **of.ties(), **of.signs()
        },
        variables={**of.matrices, **of.own},
        parameters=of.parameters,
        source="paper 3, Theorem 1 and (9)-(11), corrected",
        recover=lambda _: recovered(of),
    )  # fmt: skip


@stated("the relaxation of points without structure", PAPER, "section 2.2, corrected")
def multiclass(problem: UnsupervisedMargin) -> Formulation:
    r"""The SDP of the multiclass margin loss in (D, M), with D e = e: `full` for problems without pairs.

        omega(D, M) = max over Lambda >= 0, Lambda e = e of n - <D, Lambda> - <K, M>/(2 beta) + <K D, Lambda>/beta
                      - <Lambda Lambda', K>/(2 beta)

    D of section 2.2 is C here. ``without("rows")`` states what is printed, where D = 0 is feasible and the optimum is
    lower.

    Source: paper 3, section 2.2, corrected. Variables M (n, n), C (n, kappa), U (d, kappa), theta (n,).

    Raises
    ------
    ValueError
        If the problem has pairs.
    """
    if problem.n_pairs:
        raise ValueError(
            f"multiclass came with a problem of {problem.n_pairs} pairs, wanted one without, as UnsupervisedMargin."
            "multiclass makes it: use 'full'"
        )
    return replace(full(problem), name="multiclass", source="paper 3, section 2.2, corrected")
