"""Junction trees: the best labelling, max-marginals, sums with clique posteriors, sampling; batched over examples.

One tree serves n examples that share it. A model is a list of factors (scope, table):

    scope : variables of the tree, numbers from 0 to n_variables - 1, all in one clique
    table : (n, labels of scope[0], labels of scope[1], ...); -inf forbids a joint label. A first axis of length 1 means
        that all examples share the table.

The score of a labelling is the sum over the factors. Labellings are integer arrays (n, n_variables).

Ties: clique by clique from the root down, the first of the best joint labels of what the clique assigns. Which of the
best labellings that yields depends on the tree alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Tensor, Vector
from convexstruct.junction_trees import JunctionTree
from convexstruct.oracles.log_sum_exp import forbidding, log_sum_exp, no_finite_score

Factor = tuple[tuple[int, ...], Tensor]
#: So many pairs of a separator or factor and a clique have the order of their axes remembered: those of some trees of
#: thousands of cliques, a few hundred bytes each.
KEPT_AXES = 2**14


@dataclass(frozen=True, eq=False)
class TreeSums:
    """The results of the sums over all labellings.

    log_partition (n,): ln sum over labellings of e^score.
    cliques : for each clique its posterior, (n, joint labels of the separator, joint labels of the variables that the
        clique assigns, the others).
    """

    tree: JunctionTree
    log_partition: Vector
    cliques: tuple[Tensor, ...]

    def marginal(self, scope: Sequence[int]) -> Tensor:
        """The posterior of the variables in ``scope``, all in one clique; (n, labels of scope[0], ...)."""
        clique = self.tree.clique_of(scope)
        axes = self.tree.cliques[clique]
        table = self.cliques[clique].reshape(-1, *(self.tree.cards[v] for v in axes))
        return summed(table, tuple(scope), axes)


def best(tree: JunctionTree, factors: Sequence[Factor], n: int) -> tuple[Vector, Labels]:
    """The greatest score (n,) and a labelling that attains it (n, n_variables), of each of ``n`` examples."""
    tables, messages = upward(tree, factors, n, greatest)
    labels = np.empty((n, len(tree.cards)), dtype=np.int64)
    rows = np.arange(n)
    for c, table in enumerate(tables):
        here = table[rows, joint(labels, tree.separators[c], tree.cards)]
        split(here.argmax(axis=1), tree.assigned[c], tree.cards, labels)
    return messages[0][:, 0], labels


def max_marginals(tree: JunctionTree, factors: Sequence[Factor], n: int) -> list[Matrix]:
    """For each variable the greatest score of a labelling that has each of its labels, (n, labels).

    Of a clique and its separator s it is the clique's table with the messages of its children, plus what is outside:
    the greatest such score of the clique above at s, less the message from here.
    """
    tables, messages = upward(tree, factors, n, greatest)
    whole = [table.reshape(n, *(tree.cards[v] for v in clique)) for table, clique in zip(tables, tree.cliques)]
    for c in range(1, tree.n_cliques):
        deadline.check()
        up, scope = tree.parent[c], tree.separators[c]
        message = messages[c].reshape(n, *(tree.cards[v] for v in scope))
        with np.errstate(invalid="ignore"):  # where a label is forbidden
            outside = np.where(np.isneginf(message), -np.inf, most(whole[up], scope, tree.cliques[up]) - message)
        whole[c] = whole[c] + aligned(outside, scope, tree.cliques[c])
    return [most(whole[c], (v,), tree.cliques[c]) for v, c in enumerate(tree.home)]


def sum_product(tree: JunctionTree, factors: Sequence[Factor], n: int) -> TreeSums:
    """Log partition functions and clique posteriors of ``n`` examples, at any scale of the scores. ValueError if every
    labelling of some example is forbidden, or its scores overflow.

    Upwards, messages are logarithms; downwards, P(clique) = P(assigned | separator) P(separator), each conditional
    scaled to sum to one: then the posteriors are those of some distribution up to a relative error that depends on the
    number of operations alone, and not on the errors of the messages.
    """
    conditionals: list[Tensor] = []

    def shared(table: Tensor) -> Matrix:
        """The message, and P(assigned | separator) of the clique among ``conditionals``, the root last."""
        top = table.max(axis=2, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        weight = np.exp(table - top)
        total = weight.sum(axis=2, keepdims=True)
        conditionals.append(weight / np.where(total > 0, total, 1.0))
        with np.errstate(divide="ignore"):
            return np.asarray((top + np.log(total))[:, :, 0])

    _, messages = upward(tree, factors, n, shared)
    log_partition = messages[0][:, 0]
    if not np.isfinite(log_partition).all():
        k = int(np.flatnonzero(~np.isfinite(log_partition))[0])
        allowed = [(scope, forbidding(table)) for scope, table in factors]
        raise no_finite_score(f"example {k}", best(tree, allowed, n)[0][k])
    return TreeSums(tree, log_partition, downward(tree, conditionals[::-1]))


def downward(tree: JunctionTree, conditionals: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """P(clique) from each clique's P(assigned | separator), (n, labels of the separator, labels of what it assigns),
    root first; the conditionals are overwritten."""
    for c in range(1, tree.n_cliques):
        deadline.check()
        up = tree.parent[c]
        above = conditionals[up].reshape(-1, *(tree.cards[v] for v in tree.cliques[up]))
        separator = summed(above, tree.separators[c], tree.cliques[up])
        np.multiply(conditionals[c], separator.reshape(len(above), -1, 1), out=conditionals[c])
    return tuple(conditionals)


def sample(tree: JunctionTree, factors: Sequence[Factor], n: int, rng: np.random.Generator) -> Labels:
    """A labelling of each of ``n`` examples, drawn with probability proportional to e^score: sums upwards, then the
    labels that each clique assigns drawn given its separator's, by the Gumbel trick. Examples that share all factors
    share the sums."""
    shared = all(len(table) == 1 for _, table in factors)
    tables, _ = upward(tree, factors, 1 if shared else n, log_sum_exp)
    labels = np.empty((n, len(tree.cards)), dtype=np.int64)
    for c, table in enumerate(tables):
        deadline.check()
        here = table[0 if shared else np.arange(n), joint(labels, tree.separators[c], tree.cards)]
        here += rng.gumbel(size=here.shape)
        split(here.argmax(axis=1), tree.assigned[c], tree.cards, labels)
    return labels


def greatest(table: Tensor) -> Matrix:
    """The maximum over the joint labels of the variables that a clique assigns."""
    return np.asarray(table.max(axis=2))


def upward(
    tree: JunctionTree, factors: Sequence[Factor], n: int, reduce: Callable[[Tensor], Matrix]
) -> tuple[list[Tensor], list[Matrix]]:
    """Each clique's table (n, separator, assigned), which includes the messages of its children, and its own message
    (n, separator)."""
    tables = [np.zeros((n, *(tree.cards[v] for v in clique))) for clique in tree.cliques]
    for scope, table in factors:
        deadline.check()
        c = tree.clique_of(scope)
        tables[c] += aligned(table, scope, tree.cliques[c])
    messages: list[Matrix] = [np.zeros((n, 1))] * tree.n_cliques
    shaped: list[Tensor] = list(tables)
    for c in range(tree.n_cliques - 1, -1, -1):
        deadline.check()
        shaped[c] = tables[c].reshape(n, *tree.shapes[c])
        messages[c] = reduce(shaped[c])
        if c:
            scope = tree.separators[c]
            message = messages[c].reshape(n, *(tree.cards[v] for v in scope))
            up = tree.parent[c]
            tables[up] += aligned(message, scope, tree.cliques[up])
    return shaped, messages


def aligned(table: Tensor, scope: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """``table`` (n, scope ...) with its axes ordered and inserted so that it broadcasts against (n, axes ...)."""
    order, index, _, _ = _axes(scope, axes)
    return table.transpose(order)[index]


def summed(table: Tensor, scope: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """``table`` (n, axes ...) summed over the variables that ``scope`` has not; (n, scope ...)."""
    _, _, gone, order = _axes(scope, axes)
    return np.asarray((table.sum(axis=gone) if gone else table).transpose(order))


def most(table: Tensor, scope: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """The same with maxima for sums."""
    _, _, gone, order = _axes(scope, axes)
    return np.asarray((table.max(axis=gone) if gone else table).transpose(order))


@lru_cache(KEPT_AXES)
def _axes(
    scope: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[slice | None, ...], tuple[int, ...], tuple[int, ...]]:
    """How `aligned` orders the axes of a table over ``scope`` and which it inserts among ``axes``; which `summed` sums
    away, and how it orders the others."""
    present = [v for v in axes if v in scope]
    inserted = tuple(slice(None) if v in scope else np.newaxis for v in axes)
    gone = tuple(1 + i for i, v in enumerate(axes) if v not in scope)
    here, there = (1 + scope.index(v) for v in present), (1 + present.index(v) for v in scope)
    return (0, *here), (slice(None), *inserted), gone, (0, *there)


def joint(labels: Labels, scope: tuple[int, ...], cards: tuple[int, ...]) -> Labels:
    """The flat index, in C order, of each example's labels of ``scope`` in a table over ``scope``."""
    at = np.zeros(len(labels), dtype=np.int64)
    for v in scope:
        at *= cards[v]
        at += labels[:, v]
    return at


def split(at: Index, scope: tuple[int, ...], cards: tuple[int, ...], labels: Labels) -> None:
    """The inverse of `joint`: write the labels of ``scope`` into ``labels``."""
    for v in reversed(scope):
        at, labels[:, v] = np.divmod(at, cards[v])


def take(table: Tensor, rows: Index) -> Tensor:
    """The examples ``rows`` of a factor's table; the table itself where all examples share it."""
    return table if len(table) == 1 else table[rows]
