"""The best labelling of each loss: Viterbi with a loss counter, on chains and on junction trees.

    B_k(l) = max { score_k(y) : sum over nodes v of steps[v, y_v] = l },        l = 0 .. L

where the loss of a labelling is a whole number of units: ``steps`` holds the units that each label of each node adds
(Hamming: 1 where the label is not the true one). B solves the separation problem of slack scaling (paper 1), whose
objective is not a sum over nodes and edges:

    max over y of E_k(y) (1 + score_k(y) - truth_k) = max over l of unit l (1 + B_k(l) - truth_k)

The messages have one index more than those of Viterbi, the loss so far. On a chain, a step maximises over the previous
label for each loss so far and then shifts the result by the label's own loss. On a junction tree the losses of several
subtrees add up, so their messages are combined by max-convolution. The work is proportional to the number of losses L,
and to its square on trees that branch.

Score tables are those of `convexstruct.oracles.chain.chain` and `convexstruct.oracles.tree.junction_tree`. Ties: labels
are read from the last position, or the root, each time the first of the best; where subtrees share a loss, the last one
takes the least that is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Tensor
from convexstruct.graphs import Chains
from convexstruct.junction_trees import JunctionTree
from convexstruct.oracles.blocks import BLOCK
from convexstruct.oracles.tree.junction_tree import Factor, aligned, joint, split, take

#: The most distinct losses (0 .. L counts as L + 1): each takes a decoding of its own; losses with more are refused.
MOST_LOSSES = 4096
#: Numbers in the tables of one block of examples on a junction tree, 32 MiB.
TREE_BLOCK = 1 << 22
#: Messages of up to this many numbers in all, 256 MiB, are kept for reading labellings; the rest are computed again.
KEPT_NUMBERS = 1 << 25


@dataclass(frozen=True, eq=False)
class LossTable:
    """The best score for each loss, and the labellings that attain them.

    scores (N, L + 1): B_k(l) for each chain (caller's order) or example; -inf where no labelling has that loss.
    labels : totals (N,), each that of some labelling -> the best labelling of each with that loss: (P,) packed for
        chains, (n, n_variables) for trees, flat (P,) from the oracles of `convexstruct.inference.exact`.
    """

    scores: Matrix
    labels: Callable[[Index], Labels]


def by_loss(chains: Chains, node: Matrix, edge: Matrix, steps: Labels) -> LossTable:
    """B_k(l) of chains that share one table of transitions.

    node (P, S), edge (S, S): scores, packed. steps (P, S): loss of each label in units, whole numbers >= 0, packed.
    """
    greatest = np.bincount(chains.chain, weights=steps.max(axis=1), minlength=chains.n_chains).astype(np.intp)
    most = int(greatest.max())
    blocks = list(_chain_blocks(chains, node.shape[1], greatest))
    scores = np.full((chains.n_chains, most + 1), -np.inf)
    kept: list[list[Tensor] | None] = []
    room = KEPT_NUMBERS
    for low, high in blocks:
        messages = _forward(chains, node, edge, steps, low, high, most)
        for t, message in enumerate(messages):
            begin = int(chains.active[t + 1]) if t + 1 < chains.n_steps else 0
            ending = slice(max(begin - low, 0), min(int(chains.active[t]), high) - low)
            rows = chains.order[low + ending.start : low + ending.stop]
            scores[rows, : message.shape[1]] = message[:, :, ending].max(axis=0).T
        room -= sum(message.size for message in messages)
        kept.append(messages if room >= 0 else None)

    def read(totals: Index) -> Labels:
        labels = np.empty(chains.n_positions, dtype=np.int64)
        for (low, high), messages in zip(blocks, kept):
            again = _forward(chains, node, edge, steps, low, high, most) if messages is None else messages
            _backward(chains, edge, steps, again, low, totals[chains.order[low:high]], labels)
        return labels

    return LossTable(scores, read)


def _chain_blocks(chains: Chains, n_labels: int, greatest: Index) -> Iterator[tuple[int, int]]:
    """Ranges of chains, by falling length, whose messages of one step have at most about `BLOCK` numbers."""
    low = 0
    while low < chains.n_chains:
        wide = int(greatest[chains.order[low:]].max()) + 1
        high = min(chains.n_chains, low + max(1, BLOCK // (wide * n_labels)))
        yield low, high
        low = high


def _rows(chains: Chains, t: int, low: int, high: int) -> slice:
    """The packed rows of step t of the chains low .. high - 1 (by falling length)."""
    begin = int(chains.start[t])
    return slice(begin + low, begin + min(high, int(chains.active[t])))


def _forward(chains: Chains, node: Matrix, edge: Matrix, steps: Labels, low: int, high: int, most: int) -> list[Tensor]:
    """For each step t the best scores (label at t, loss so far, chain) of the labellings of positions up to t, for
    chains longer than t."""
    n_labels = node.shape[1]
    messages: list[Tensor] = []
    arriving = np.zeros((n_labels, 1, high - low))
    for t in range(chains.n_steps):
        if int(chains.active[t]) <= low:
            break
        deadline.check()
        rows = _rows(chains, t, low, high)
        n = rows.stop - rows.start
        if t:
            arriving = _max_product(messages[-1][:, :, :n], edge)
        message = _shifted(arriving, steps[rows].T, most)
        message += node[rows].T[:, None, :]
        messages.append(message)
    return messages


def _max_product(message: Tensor, edge: Matrix) -> Tensor:
    """max over i of message[i] + edge[i, j], for each j; one i at a time, so that the arrays stay in the cache."""
    flat = np.ascontiguousarray(message).reshape(len(message), -1)
    best = np.add(flat[0], edge[0][:, None])
    term = np.empty_like(best)
    for i in range(1, len(flat)):
        np.add(flat[i], edge[i][:, None], out=term)
        np.maximum(best, term, out=best)
    return np.asarray(best.reshape(message.shape))


def _shifted(scores: Tensor, steps: Labels, most: int) -> Tensor:
    """new[s, l + steps[s, k], k] = scores[s, l, k]; -inf elsewhere. No chain has a loss above ``most``."""
    n_labels, wide, n = scores.shape
    moved = np.full((n_labels, min(wide + int(steps.max()), most + 1), n), -np.inf)
    for step in np.unique(steps):
        into = moved[:, step : step + wide]
        np.copyto(into, scores[:, : into.shape[1]], where=(steps == step)[:, None, :])
    return moved


def _backward(
    chains: Chains, edge: Matrix, steps: Labels, messages: list[Tensor], low: int, totals: Index, labels: Labels
) -> None:
    """Read the labelling of each chain of a block with its loss in ``totals`` (by falling length) into ``labels``."""
    left = totals.copy()
    current = np.zeros(0, dtype=np.int64)
    for t in range(len(messages) - 1, -1, -1):
        n = messages[t].shape[2]
        arriving = messages[t][:, left[:n], np.arange(n)]
        arriving[:, : len(current)] += edge[:, current]
        current = arriving.argmax(axis=0)
        rows = _rows(chains, t, low, low + n)
        labels[rows] = current
        left[:n] -= steps[np.arange(rows.start, rows.stop), current]


# -- junction trees ----------------------------------------------------------------------------------------------------


def by_loss_on_tree(tree: JunctionTree, factors: Sequence[Factor], n: int, steps: Labels) -> LossTable:
    """B_k(l) of ``n`` examples on one junction tree.

    steps (n, n_variables, S): loss of each label of each variable in units, whole numbers >= 0; S is the greatest
    number of labels, and entries beyond a variable's own labels are ignored.
    """
    cards = tree.cards
    own = np.zeros(n, dtype=np.intp)
    for v, card in enumerate(cards):
        own += steps[:, v, :card].max(axis=1)
    most = int(own.max())
    size = max(1, TREE_BLOCK // (tree.n_entries * (most + 1)))
    blocks = [np.arange(low, min(n, low + size)) for low in range(0, n, size)]
    scores = np.full((n, most + 1), -np.inf)
    kept: list[_Counted | None] = []
    room = KEPT_NUMBERS

    def count(some: Index) -> _Counted:
        own = [(scope, take(table, some)) for scope, table in factors]
        return _count(tree, own, steps[some], most)

    for some in blocks:
        counted = count(some)
        scores[some, : len(counted.messages[0])] = counted.messages[0][:, :, 0].T
        room -= sum(table.size for table in (*counted.tables, *counted.messages))
        kept.append(counted if room >= 0 else None)

    def read(totals: Index) -> Labels:
        labels = np.empty((n, len(cards)), dtype=np.int64)
        for some, known in zip(blocks, kept):
            counted = count(some) if known is None else known
            labels[some] = _read(tree, steps[some], counted, totals[some])
        return labels

    return LossTable(scores, read)


def joined(parts: Sequence[tuple[Index, Index, LossTable]], n_examples: int, n_positions: int) -> LossTable:
    """One table of the examples of several. parts : for each the examples (n,), the places (n, variables) of their
    labels in a flat labelling (n_positions,), and the table."""
    scores = np.full((n_examples, max(table.scores.shape[1] for _, _, table in parts)), -np.inf)
    for examples, _, table in parts:
        scores[examples, : table.scores.shape[1]] = table.scores

    def read(totals: Index) -> Labels:
        labels = np.empty(n_positions, dtype=np.int64)
        for examples, places, table in parts:
            labels[places] = table.labels(totals[examples])
        return labels

    return LossTable(scores, read)


@dataclass(frozen=True, eq=False)
class _Counted:
    """For each clique its factors (n, separator, assigned), its table (losses, n, separator, assigned), which includes
    the messages of its children and its own losses, and its message (losses, n, separator)."""

    factors: list[Tensor]
    tables: list[Tensor]
    messages: list[Tensor]


def _count(tree: JunctionTree, factors: Sequence[Factor], steps: Labels, most: int) -> _Counted:
    """Max-messages upwards; their first index is the loss of the variables assigned in the clique and below it."""
    n = len(steps)
    tables = [np.zeros((n, *(tree.cards[v] for v in clique))) for clique in tree.cliques]
    for scope, table in factors:
        c = tree.clique_of(scope)
        tables[c] += aligned(table, scope, tree.cliques[c])
    own = [table.reshape(n, *shape) for table, shape in zip(tables, tree.shapes)]
    below = [table[None] for table in tables]
    messages: list[Tensor] = [np.zeros((1, n, 1))] * tree.n_cliques
    shaped: list[Tensor] = [np.zeros((1, n, 1, 1))] * tree.n_cliques
    for c in range(tree.n_cliques - 1, -1, -1):
        deadline.check()
        flat = below[c].reshape(len(below[c]), n, *tree.shapes[c])
        shaped[c] = _raised(flat, _own_steps(tree, c, steps), most)
        messages[c] = shaped[c].max(axis=3)
        if c:
            up, scope = tree.parent[c], tree.separators[c]
            message = messages[c].reshape(-1, *(tree.cards[v] for v in scope))
            spread = aligned(message, scope, tree.cliques[up])
            spread = spread.reshape(len(messages[c]), n, *spread.shape[1:])
            below[up] = _max_sum(below[up], spread)[: most + 1]
    return _Counted(own, shaped, messages)


def _own_steps(tree: JunctionTree, clique: int, steps: Labels) -> Labels:
    """The loss of each joint label of the variables that a clique assigns; (n, assigned)."""
    total = np.zeros((len(steps), 1), dtype=np.int64)
    for v in tree.assigned[clique]:
        total = (total[:, :, None] + steps[:, v, None, : tree.cards[v]]).reshape(len(steps), -1)
    return total


def _raised(scores: Tensor, steps: Labels, most: int) -> Tensor:
    """new[l + steps[k, a], k, s, a] = scores[l, k, s, a]; -inf elsewhere. No example has a loss above ``most``."""
    wide = len(scores)
    moved = np.full((min(wide + int(steps.max()), most + 1), *scores.shape[1:]), -np.inf)
    for step in np.unique(steps):
        into = moved[step : step + wide]
        np.copyto(into, scores[: len(into)], where=(steps == step)[:, None, :])
    return moved


def _max_sum(left: Tensor, right: Tensor) -> Tensor:
    """new[l] = max over i of left[l - i] + right[i]; the losses of two independent parts add."""
    if len(left) < len(right):
        left, right = right, left
    first = left + right[0]
    total = np.full((len(left) + len(right) - 1, *first.shape[1:]), -np.inf)
    total[: len(left)] = first
    for i in range(1, len(right)):
        deadline.check()
        part = total[i : i + len(left)]
        np.maximum(part, left + right[i], out=part)
    return total


def _read(tree: JunctionTree, steps: Labels, counted: _Counted, totals: Index) -> Labels:
    """For each example a best labelling whose loss is its total."""
    n = len(totals)
    rows = np.arange(n)
    labels = np.empty((n, len(tree.cards)), dtype=np.int64)
    left = [totals, *(np.zeros(n, dtype=np.intp) for _ in range(1, tree.n_cliques))]
    children: list[list[int]] = [[] for _ in range(tree.n_cliques)]
    for c in range(tree.n_cliques - 1, 0, -1):  # in the order in which `_count` adds messages
        children[tree.parent[c]].append(c)
    for c in range(tree.n_cliques):
        at = joint(labels, tree.separators[c], tree.cards)
        here = counted.tables[c][left[c], rows, at]
        chosen = here.argmax(axis=1)
        split(chosen, tree.assigned[c], tree.cards, labels)
        remaining = left[c] - _own_steps(tree, c, steps)[rows, chosen]
        parts = [counted.messages[k][:, rows, joint(labels, tree.separators[k], tree.cards)] for k in children[c]]
        sums = [counted.factors[c][rows, at, chosen][None]]  # the clique's score and the messages added so far, by loss
        sums += [sums[-1] + parts[0]] if parts else []
        for part in parts[1:]:
            sums.append(_max_sum(sums[-1], part))
        for i in range(len(parts) - 1, 0, -1):
            left[children[c][i]] = _share(sums[i], parts[i], remaining)
            remaining = remaining - left[children[c][i]]
        if parts:
            left[children[c][0]] = remaining
    return labels


def _share(before: Matrix, part: Matrix, total: Index) -> Index:
    """The loss of ``part`` (losses, n) in the best split of each ``total``."""
    share = np.arange(len(part))[:, None]
    rest = total - share
    inside = (rest >= 0) & (rest < len(before))
    value = np.where(inside, before[np.where(inside, rest, 0), np.arange(len(total))] + part, -np.inf)
    return np.asarray(value.argmax(axis=0))
