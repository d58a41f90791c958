"""The relaxation of the best labelling to the local polytope: a linear program for any graph, solved by HiGHS.

    maximise    sum_v <node_v, mu_v> + sum_e <edge_e, mu_e>
    subject to  sum_s mu_v(s) = 1,   sum_t mu_e(s, t) = mu_u(s),   sum_s mu_e(s, t) = mu_v(t),   mu >= 0

(Schlesinger 1976; Wainwright, Jordan 2008, section 8). Marginals of labellings satisfy the constraints, so the optimum
is an upper bound on the greatest score; the two are equal on forests, and for associative tables of two labels. Where
the solution is integral, its labelling is the best. On other graphs with cycles the bound can be too high: for a
triangle with two labels and score 1 for each unequal pair the greatest score is 2, and the relaxation reaches 3 with
every node marginal 1/2.

The multipliers of the agreement constraints are messages (`Pairwise.upper`). The returned bound is computed from them
here and not taken from the solver, so it is valid whatever the solver's tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.oracles.loopy.pairwise import Pairwise


class Relaxed(NamedTuple):
    """A solution of the relaxation, part by part, and the labelling that it is rounded to.

    upper (N,): the upper bound on the greatest score. scores (N,): the score of ``labels``. labels (P,): the most
    probable label of each node, the smallest of several. node (P, S), edge (Q, S, S): the marginals mu as returned by
    the solver. messages (Q, 2, S): the messages from which the bound is computed.
    """

    upper: Vector
    scores: Vector
    labels: Labels
    node: Matrix
    edge: Tensor
    messages: Tensor


def linear_relaxation(scores: Pairwise) -> Relaxed:
    """Solve the relaxation. Which of several best labellings is found is not determined. RuntimeError if HiGHS does not
    solve the program, which always has an optimum."""
    P, Q, S = scores.n_nodes, scores.n_edges, scores.n_labels
    objective = np.concatenate((scores.node.ravel(), scores.edge.ravel()))
    size = float(np.abs(objective).max()) or 1.0
    constraints = local_polytope(scores)
    right = np.concatenate((np.ones(P), np.zeros(2 * Q * S)))
    options = {"time_limit": deadline.left()}
    solved = scipy.optimize.linprog(
        -objective / size, A_eq=constraints, b_eq=right, bounds=(0, None), method="highs", options=options
    )
    if solved.status == 1:  # the only limit is that of the time
        raise deadline.DeadlinePassed
    if solved.status != 0:
        raise RuntimeError(f"HiGHS did not solve the relaxation: {solved.message}")
    messages = -size * np.asarray(solved.eqlin.marginals[P:]).reshape(Q, 2, S)
    node, edge = solved.x[: P * S].reshape(P, S), solved.x[P * S :].reshape(Q, S, S)
    labels = node.argmax(axis=1).astype(np.int64)
    value = scores.score(labels)
    return Relaxed(np.maximum(scores.upper(messages), value), value, labels, node, edge, messages)


def local_polytope(scores: Pairwise) -> sp.csr_array:
    """The equations, sparse (P + 2 Q S, P S + Q S S): sums of nodes, then for each edge the agreement of its first end
    by label, then of its second. Variables: node marginals, then edge marginals, C order."""
    P, Q, S = scores.n_nodes, scores.n_edges, scores.n_labels
    of_nodes = np.arange(P * S)
    sums = (of_nodes // S, of_nodes, np.ones(P * S))
    e, end, s = (grid.ravel() for grid in np.indices((Q, 2, S)))
    agreement = P + np.arange(2 * Q * S)
    less = (agreement, scores.edges[e, end] * S + s, -np.ones(2 * Q * S))
    e, s, t = (grid.ravel() for grid in np.indices((Q, S, S)))
    of_edges = P * S + np.arange(Q * S * S)
    first = (P + (2 * e) * S + s, of_edges, np.ones(Q * S * S))
    second = (P + (2 * e + 1) * S + t, of_edges, np.ones(Q * S * S))
    rows, columns, values = (np.concatenate(parts) for parts in zip(sums, less, first, second))
    return sp.csr_array((values, (rows, columns)), shape=(P + 2 * Q * S, P * S + Q * S * S))
