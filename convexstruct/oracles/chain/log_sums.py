"""Forward-backward with log messages, each step a matrix product: exact at every temperature.

Used where `convexstruct.oracles.chain.chain.rescaled` would lose labels that count. It is faster than the alternative,
`convexstruct.oracles.chain.regrets`. Score tables and orders are those of `convexstruct.oracles.chain.chain`.
"""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Tensor
from convexstruct.graphs import Chains
from convexstruct.oracles.chain.sums import BLOCK, NEGLIGIBLE, ChainSums
from convexstruct.tolerances import POSTERIOR

#: Share of the log messages that may be summed again.
AGAIN = 0.05
#: Log-domain messages below this (relative to the largest term that entered them) are summed again, in a second band
#: of exponents that reaches as much further.
UNDERFLOW = -640.0
BAND = 600.0
#: A row's scale, in nats, up to which its pairs are entries of a matrix product.
REACH = 1300.0


def log_messages(
    chains: Chains, node: Tensor, edge: Tensor, weights: Tensor | None = None, squares: bool = False
) -> ChainSums | None:
    """Forward-backward with log messages, each step a matrix product whose lost entries are summed again.

    f_t = node_t + ln(e^{f_{t-1}} W), b_{t-1} = ln(e^{node_t + b_t} W'), posteriors e^{f_t + b_t - ln Z}. Exact at every
    temperature. Returns None where more than `AGAIN` of a direction's messages are lost: regrets are faster there.
    """
    forward, backward = node.copy(), np.zeros_like(node)
    allowed = [int(AGAIN * node.size), int(AGAIN * node.size)]
    into, back = LogProduct(edge), LogProduct(np.ascontiguousarray(edge.T))
    for t in range(1, chains.n_steps):
        before = slice(int(chains.start[t - 1]), int(chains.start[t - 1] + chains.active[t]))
        arriving, again = into(forward[before])
        forward[chains.rows(t)] += arriving
        allowed[0] -= again
        if allowed[0] < 0:
            return None
    ahead = node.copy()  # node + backward
    for t in range(chains.n_steps - 1, 0, -1):
        before = slice(int(chains.start[t - 1]), int(chains.start[t - 1] + chains.active[t]))
        backward[before], again = back(ahead[chains.rows(t)])
        ahead[before] += backward[before]
        allowed[1] -= again
        if allowed[1] < 0:
            return None
    log_partition = np.logaddexp.reduce(forward[chains.last], axis=1)
    with np.errstate(under="ignore", divide="ignore"):
        log_weight = 0.0 if weights is None else np.log(weights)
        posterior = np.exp(forward + backward - log_partition[chains.chain, None])
        total = posterior.sum(axis=1)
        if not np.all(np.abs(total - 1.0) <= POSTERIOR):
            return None
        left, right, whose = forward[chains.previous], ahead[chains.later], chains.chain[chains.later]
        pairs = _log_pairs(left, right, edge, (log_partition - log_weight)[whose])
        squared = None
        if squares:
            squared = _log_pairs(2.0 * left, 2.0 * right, 2.0 * edge, (2.0 * log_partition - log_weight)[whose])
    return ChainSums(log_partition, posterior, pairs, squared)


def _log_pairs(before: Tensor, after: Tensor, edge: Tensor, log_partition: Tensor) -> Tensor:
    """sum over rows n of e^(before[n, i] + edge[i, j] + after[n, j] - log_partition[n]); no term exceeds a weight.

    Computed as a matrix product of e^before and e^after, each given half of its row's scale. Terms that underflow are
    too small to matter. A product overflows only where the entry of ``edge`` is far below the largest; such entries
    are computed apart, from the rows that can contribute. Rows whose scale is beyond `REACH` are summed term by term.
    """
    left, right, top = before.max(axis=1), after.max(axis=1), float(edge.max())
    rise = left + right + top - log_partition
    plain = rise <= REACH
    half = 0.5 * rise[plain]
    forward, backward = before[plain] - (left[plain] - half)[:, None], after[plain] - (right[plain] - half)[:, None]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        pairs = np.exp(forward).T @ np.exp(backward) * np.exp(edge - top)
        deep = edge - top < UNDERFLOW
        if deep.any():
            some = rise[plain] > -UNDERFLOW - NEGLIGIBLE
            lower = 0.5 * UNDERFLOW
            second = np.exp(forward[some] + lower).T @ np.exp(backward[some] + lower)
            pairs[deep] = (second * np.exp(edge - top - UNDERFLOW))[deep]
    steep = np.flatnonzero(~plain)
    size = BLOCK // edge.size + 1
    for some in (steep[low : low + size] for low in range(0, len(steep), size)):
        pairs += np.exp(before[some, :, None] + edge + (after[some] - log_partition[some, None])[:, None, :]).sum(
            axis=0
        )
    return np.asarray(pairs)


class LogProduct:
    """ln sum_i e^(message[n, i] + edge[i, j]) for each row n and column j, and how many were lost and summed again.

    Entries that underflow in the matrix product are computed by a second one with its terms multiplied by e^`BAND`:
    large messages times multiplied edge weights, plus multiplied small messages times edge weights. Entries that
    underflow there too are summed term by term.
    """

    def __init__(self, edge: Tensor) -> None:
        top = edge.max(axis=0)
        self.edge, self._shift = edge, np.where(np.isfinite(top), top, 0.0)
        with np.errstate(under="ignore"):
            self._factor = np.exp(edge - self._shift)
            self._raised = np.exp(edge - self._shift + BAND)

    @np.errstate(divide="ignore", under="ignore")
    def __call__(self, message: Tensor) -> tuple[Tensor, int]:
        top = message.max(axis=1)
        shift = np.where(np.isfinite(top), top, 0.0)[:, None]
        message = message - shift
        share = np.exp(message)
        product = np.log(share @ self._factor)
        again = 0
        if product.min() < UNDERFLOW:
            large = message >= -BAND
            share *= large
            message += BAND
            second = share @ self._raised
            second += np.exp(message, where=~large, out=np.zeros_like(message)) @ self._factor
            np.copyto(product, np.log(second) - BAND, where=product < UNDERFLOW)
            again = self._one_by_one(message, product)
        product += shift
        product += self._shift
        return np.asarray(product), again

    def _one_by_one(self, message: Tensor, product: Tensor) -> int:
        """Sum again what both bands lost; ``message`` is raised by `BAND`."""
        row, column = np.nonzero(product < UNDERFLOW - BAND)
        size = BLOCK // len(self.edge) + 1
        for low in range(0, len(row), size):
            i, j = row[low : low + size], column[low : low + size]
            terms = message[i] + (self.edge[:, j].T - self._shift[j, None])
            most = terms.max(axis=1)
            safe = np.where(np.isfinite(most), most, 0.0)
            product[i, j] = safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1)) - BAND
        return len(row)
