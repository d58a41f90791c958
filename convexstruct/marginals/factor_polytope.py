r"""The marginal polytope of `Factors`, exact, by the cliques of their junction tree.

Tables z_c over the labels of each clique that agree on the variables which neighbouring cliques share are exactly the
clique marginals of distributions over all joint labels. The distribution of greatest entropy with given z is
q(x) = prod_c z_c(assigned | separator), so the entropy is a sum of conditional ones, clique minus separator:

    H(z) = - sum_c sum z_c ln (z_c / z_sep(c)),      z_sep(c) the sums of z_c over what clique c assigns.

Entries stand clique after clique, root first, in C order of each clique's axes (separator, then assigned). Where joint
labels are forbidden, z is 0 outside its *support*, the entries that some allowed labelling has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index, Labels, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.junction_trees import JunctionTree
from convexstruct.marginals.tree_tables import TreeTables
from convexstruct.marginals.triplets import Triplets


@dataclass(frozen=True, eq=False)
class FactorPolytope:
    """{z >= 0, totals z = 1, agreement z = 0, and z = 0 outside the support}; made by `factor_polytope`."""

    factors: Factors
    tree: JunctionTree

    @property
    def n_variables(self) -> int:
        """n, the entries of all clique tables."""
        return self.tree.n_entries

    @cached_property
    def entries(self) -> TreeTables:
        """Which variable is which entry of which table."""
        return TreeTables(self.tree)

    @property
    def start(self) -> Index:
        """The first entry of each clique, and n at the end."""
        return self.entries.start

    @cached_property
    def totals(self) -> sp.csr_array:
        """(1, n): the sum of the root's table."""
        entries = Triplets()
        entries.add(np.zeros(1, dtype=np.intp), self.entries.entries(0), 1.0)
        return entries.matrix((1, self.n_variables))

    @cached_property
    def agreement(self) -> sp.csr_array:
        """(m, n): for each clique but the root, and each labelling of its separator, the clique's sum less its
        parent's."""
        equations, none = Triplets(), np.zeros(1, dtype=np.intp)
        self.entries.agree(equations, none, none)
        return equations.matrix((self.entries.n_agreements, self.n_variables))

    @cached_property
    def tables(self) -> sp.csr_array:
        """(T, n): the marginals of each factor's table, as the factors stack them."""
        entries = Triplets()
        for f, scope in enumerate(self.factors.scopes):
            c = self.tree.clique_of(scope)
            strides = dict(zip(scope, np.cumprod([1, *(self.factors.cards[v] for v in scope[:0:-1])])[::-1]))
            at = self.factors.start[f] + sum(strides[v] * self.entries.labels[c][v] for v in scope)
            entries.add(at, self.entries.entries(c), 1.0)
        return entries.matrix((self.factors.n_entries, self.n_variables))

    @cached_property
    def features(self) -> sp.csr_array:
        """(d, n): E f = features z."""
        return sp.csr_array(self.factors.design.T @ self.tables)

    @cached_property
    def support(self) -> Flags:
        """Whether some allowed labelling has the entry, (n,): entries that are forbidden themselves, then those that
        agree with no entry left of a neighbouring clique, are taken out from the leaves up and from the root down."""
        found = np.ones(self.n_variables, dtype=bool)
        if self.factors.forbidden is None:
            return found
        found &= np.asarray(self.tables[np.flatnonzero(self.factors.forbidden)].sum(axis=0)).ravel() == 0
        below = range(1, self.tree.n_cliques)
        for c, upwards in [*((c, True) for c in reversed(below)), *((c, False) for c in below)]:
            pair = (c, self.tree.parent[c]) if upwards else (self.tree.parent[c], c)
            source, target = (slice(self.start[each], self.start[each + 1]) for each in pair)
            left = np.zeros(self.tree.shapes[c][0], dtype=bool)
            left[self.entries.joint(pair[0], self.tree.separators[c])[found[source]]] = True
            found[target] &= left[self.entries.joint(pair[1], self.tree.separators[c])]
        return found

    def of_samples(self, samples: Labels, weights: Vector | None = None) -> Vector:
        """The clique tables of samples (m, variables), each counted ``weights`` (m,) times."""
        found = np.zeros(self.n_variables)
        for c, clique in enumerate(self.tree.cliques):
            at = np.zeros(len(samples), dtype=np.intp)
            for v in clique:
                at = at * self.tree.cards[v] + samples[:, v]
            size = int(self.start[c + 1] - self.start[c])
            found[self.start[c] : self.start[c + 1]] = np.bincount(at, weights=weights, minlength=size)
        return found


def factor_polytope(inference: FactorInference) -> FactorPolytope:
    """The marginal polytope of the factors that ``inference`` is for. ValueError if the junction tree is too wide."""
    return FactorPolytope(inference.factors, inference.tree)
