r"""Maximum entropy given moments (paper 4, 20.3, (20.10)): the dual of likelihood training, in CVXPY.

    maximum_entropy    over the probabilities of all labellings
    clique_entropy     over the clique tables of a junction tree, of polynomial size

Both are exact, for Markov random fields and for conditional ones; what they share is in `statement`.
"""

from __future__ import annotations

import cvxpy as cp

from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation
from convexstruct.models.log_linear.statement import (
    PAPER,
    QUADRATIC,
    Distributions,
    Model,
    Penalised,
    over_cliques,
    written_out,
)

#: LaTeX of the two entropies.
ENUMERATED = r"- C \sum_i \omega_i \sum_y q_i(y) \ln q_i(y)"
CLIQUES = r"- C \sum_i \omega_i \sum_c \sum q_{i,c} \ln \frac{q_{i,c}}{q_{i,\mathrm{sep}(c)}}"


@stated("maximum entropy given moments, every labelling written out", PAPER, "(20.10)", enumerated=True)
def maximum_entropy(problem: ConditionalRandomField | MarkovRandomField, limit: int = MOST_LABELLINGS) -> Formulation:
    r"""Maximum entropy, every labelling written out:

        max  - C sum_i omega_i sum_y q_i(y) ln q_i(y) - lam/2 |theta|^2
        s.t. C sum_i omega_i E_qi f + lam theta + v = C sum_i omega_i f(x_i, y_i)          (20.10)
             |v_k| <= l1                                                                   ("box")
             sum_y q_i(y) = 1                                                              ("sum")

    The terms with theta are there only with an L2 penalty, v and the box only with an L1 penalty; without either this
    is (20.10) as printed. Without an L2 penalty, theta is minus the multipliers of (20.10).

    Source: paper 4, (20.10) and Theorem 20.3.4. Variables q (R,), theta (d,), v (d,); parameters C, lam, l1.

    Raises
    ------
    ValueError
        If there are more than ``limit`` labellings.
    """
    return _over("maximum_entropy", problem, written_out(problem, limit), ENUMERATED, "paper 4, (20.10), enumerated")


@stated("the same over clique tables, clique minus separator entropies", PAPER, "(20.10), on junction trees")
def clique_entropy(problem: ConditionalRandomField | MarkovRandomField) -> Formulation:
    r"""Maximum entropy over clique tables z of junction trees, of polynomial size and exact:

        max  - C sum_i omega_i sum_c sum z_c ln (z_c / z_sep(c)) - lam/2 |theta|^2
        s.t. (20.10) and "box" as `maximum_entropy` has them
             the root's table sums to 1                                                    ("sum")
             neighbouring cliques agree on what they share                                 ("agree")

    The entropy is clique minus separator entropies, written as conditional ones, each -rel_entr, so that it is DCP.
    z_sep is summed from the clique's own table, and "agree" makes it equal to the sums of its parent's.

    Source: paper 4, (20.10), over the cliques of a junction tree. Variables q (n,), theta (d,), v (d,); parameters C,
    lam, l1.

    Raises
    ------
    ValueError
        If a junction tree is too wide.
    """
    return _over("clique_entropy", problem, over_cliques(problem), CLIQUES, "paper 4, (20.10), over cliques")


def _over(name: str, problem: Model, of: Distributions, shown: str, source: str) -> Formulation:
    penalised = Penalised(problem)
    q = cp.Variable(of.n, name="q")
    parts, variables, cost = penalised.moments(of.weighted @ q, of.truth)
    quadratic = f" - {QUADRATIC}" if penalised.lam is not None else ""
    return Formulation(
        name=name,
        objective=cp.Maximize(penalised.C * of.entropy(q) - cost),
        objective_latex=rf"\max_q\quad {shown}{quadratic}",
        parts={**parts, **of.equations(q)},
        variables={"q": q, **variables},
        parameters=penalised.parameters,
        source=source,
        recover=lambda formulation: penalised.recover(formulation, of),
    )
