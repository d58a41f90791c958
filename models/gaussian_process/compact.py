r"""Gaussian process sequence labelling, (32) of paper 2, in polynomial size: over messages, and over edge marginals.

The sum over labellings of a chain is a product of matrices, so its logarithm is a nested log-sum-exp, with one message
for each position and label. The dual of that is over edge marginals: the distribution of greatest entropy with given
edge marginals is a Markov chain, whose entropy is that of its first label plus conditional entropies.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from convexstruct.arrays import Index
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.marginals.triplets import picks, sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Equation, Formulation, equation
from convexstruct.models.gaussian_process.enumerated import (
    FUNCTION,
    PAPER,
    QUADRATIC,
    SUBSTITUTED,
    FunctionValues,
)


class Steps:
    """Positions, labels and transitions as indices; positions are in packed order, the first of all sequences first.

    Position p with label s is number p S + s, step e from s' to s is number e S^2 + s' S + s.

    score : sparse (P S, n), picks the scores of a position. transition : sparse (E S^2, n), picks that of a step.
    before, after : (E S^2,) the number of (position, label) that each step comes from, and goes to.
    first : (N S,) the numbers of the first positions; sequence : (N S,) whose they are.
    """

    def __init__(self, problem: GaussianProcessSequences) -> None:
        s, chains = problem.n_labels, problem.chains
        labels = np.arange(s)
        self.n_states = chains.n_positions * s
        self.n_steps = len(chains.later) * s * s
        of_input = (problem.packed_places[:, None] * s + labels).ravel()
        table = np.zeros(len(chains.later), dtype=np.intp) if problem.stationary else chains.step[chains.later] - 1
        of_pair = (problem.n_inputs * s + table[:, None] * s * s + np.arange(s * s)).ravel()
        self.score = picks(of_input, problem.dimension)
        self.transition = picks(of_pair, problem.dimension)
        self.before = np.repeat((chains.previous[:, None] * s + labels).ravel(), s)
        self.after = np.repeat(chains.later * s, s * s) + np.tile(labels, len(chains.later) * s)
        self.first = np.arange(chains.n_chains * s)
        self.sequence = np.repeat(np.arange(chains.n_chains), s)


@stated("(32) with the sum over labellings by messages, polynomial size", PAPER, "ours, from (32)")
def compact_primal(problem: GaussianProcessSequences) -> Formulation:
    r"""(32) with the sum over labellings done by messages b:

        min  lam/2 |v|^2 - <z, t> + sum_i a_i,     t = R v                                 (32)
        s.t. sum_s exp(t(p, s) + b_p(s) - a_i) <= 1                 p the first of i       ("first")
             sum_s exp(t(s', s) + t(p, s) + b_p(s) - b_{p-1}(s')) <= 1   p any other       ("messages")
             b_p = 0                                                p the last of i        ("last")

    Source: ours, from paper 2, (32). Variables v (r,), b (P S,), a (N,); parameter lam. P S^2 exponential cones.
    The terms of "messages" at the optimum are the probabilities of a label given the one before.
    """
    of, steps = FunctionValues(problem), Steps(problem)
    t = of.scores
    b = cp.Variable(steps.n_states, name="b")
    a = cp.Variable(len(problem.lengths), name="a")
    following = steps.score @ t + b
    last = (problem.chains.last[:, None] * problem.n_labels + np.arange(problem.n_labels)).ravel()
    begins = cp.exp(following[steps.first] - a[steps.sequence])
    parts = {
        "first": equation(
            sums_by(steps.sequence, len(problem.lengths)) @ begins <= 1,
            r"\sum_s e^{t(p, s) + b_p(s) - a_i} \le 1, \quad p \text{ the first of } i",
        ),
    }
    if steps.n_steps:
        into, which = np.unique(steps.before, return_inverse=True)
        goes_on = cp.exp(steps.transition @ t + following[steps.after] - b[steps.before])
        parts["messages"] = equation(
            sums_by(which, len(into)) @ goes_on <= 1,
            r"\sum_s e^{t(s', s) + t(p, s) + b_p(s) - b_{p-1}(s')} \le 1, \quad \forall s', \text{ every other } p",
        )
    parts["last"] = equation(b[last] == 0, r"b_p = 0, \quad p \text{ the last of } i")
    return Formulation(
        name="compact_primal",
        # a is in packed order, the problem's sequences in the caller's; only the sum of a enters, so both are right
        objective=cp.Minimize(of.substituted - problem.truth @ t + cp.sum(a)),
        objective_latex=rf"\min_{{v}}\quad {SUBSTITUTED} - \langle z, t \rangle + \sum_i a_i, \quad {FUNCTION}",
        objective_label="32",
        parts=parts,
        variables={"v": of.v, "b": b, "a": a},
        parameters={"lam": of.lam},
        source="ours, from paper 2, (32), by messages",
        recover=of.recover,
    )


@stated("the dual of (32) over edge marginals, polynomial size", PAPER, "ours, from (32)")
def compact_dual(problem: GaussianProcessSequences) -> Formulation:
    r"""The dual over marginals q (positions) and e (steps):

        max  sum_i H(q_first(i)) - sum_p sum_{s', s} e_p(s', s) ln (e_p(s', s) / q_{p-1}(s')) - lam/2 u'Ku
        s.t. lam u = z - m(q, e)                                            ("u")
             sum_s q_p(s) = 1                       p the first of i        ("sum")
             sum_{s'} e_p(s', s) = q_p(s)                                   ("arriving")
             sum_s e_p(s', s) = q_{p-1}(s')                                 ("leaving")

    m sums q by input and e over all steps. Both "arriving" and "leaving" are needed: marginals that agree in one
    direction only need not belong to a distribution, and the optimum over them is no lower bound on p*.

    Source: ours, from paper 2, (32). Variables q (P S,), e (E S^2,), u (n,); parameter lam.
    """
    of, steps = FunctionValues(problem), Steps(problem)
    q = cp.Variable(steps.n_states, name="q")
    mean, entropy = steps.score.T @ q, cp.sum(cp.entr(q[steps.first]))
    variables = {"u": of.u, "q": q}
    agree: dict[str, Equation] = {}
    if steps.n_steps:
        e = cp.Variable(steps.n_steps, name="e")
        variables["e"] = e
        mean = mean + steps.transition.T @ e
        entropy = entropy - cp.sum(cp.rel_entr(e, q[steps.before]))
        agree = {
            "arriving": _agreement(e, q, steps.after, r"\sum_{s'} e_p(s', s) = q_p(s)"),
            "leaving": _agreement(e, q, steps.before, r"\sum_s e_p(s', s) = q_{p-1}(s')"),
        }
    return Formulation(
        name="compact_dual",
        objective=cp.Maximize(entropy - of.quadratic),
        objective_latex=r"\max_{q, e}\quad \sum_i H(q_{first(i)}) - \sum_{p, s', s} e_p(s', s) "
        rf"\ln \frac{{e_p(s', s)}}{{q_{{p-1}}(s')}} - {QUADRATIC}",
        parts={
            "u": equation(of.lam * of.u == problem.truth - mean, r"\lambda u = z - m(q, e)"),
            "sum": equation(
                sums_by(steps.sequence, len(problem.lengths)) @ q[steps.first] == 1,
                r"\sum_s q_p(s) = 1, \quad p \text{ the first of } i",
            ),
            **agree,
        },
        variables=variables,
        parameters={"lam": of.lam},
        source="ours, from paper 2, (32), over marginals",
        recover=of.recover,
    )


def _agreement(e: Any, q: Any, states: Index, latex: str) -> Equation:
    """The sums of e by (position, label) are the marginals q there."""
    which, group = np.unique(states, return_inverse=True)
    return equation(sums_by(group, len(which)) @ e == q[which], latex)
