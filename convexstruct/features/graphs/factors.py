r"""Log-linear factors over discrete variables: score tables that are linear in the parameters (paper 4).

    score(x) = sum_c table_c(x_c),        table_c = A_c theta,        p(x) = e^score(x) / Z

Factor c has a scope, a few variables, and a table with one entry a joint label of them. The *design* A (T, d) stacks
the A_c: row t holds the features of joint label t, entries of one table in C order, factor after factor. So

    f(x) = sum of the rows of A that x chooses, one of each factor,        score(x) = <theta, f(x)>.

A tabular model has one parameter for each entry (A is the identity); a tied parameter is a column with entries in
several tables; a feature of paper 4 is a column. The graph joins all variables that share a factor.

Joint labels that no labelling may have are *forbidden*: the score of such an entry is -infinity, whatever theta
(`convexstruct.features.graphs.forbidden`).

A sample is one row of labels (n,), from 0, one for each variable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import OPTIONAL, Flags, Index, Labels, Tensor, Vector
from convexstruct.graphs import node_pairs, starts
from convexstruct.validation.arguments import flag, sentence, sequence, sized
from convexstruct.validation.arrays import NOT_KNOWN, real, wholes
from convexstruct.validation.sparse import sparse


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors and their design; made by `read_factors`, `factors_of_features` or `tabular_factors`.

    cards : the number of labels of each variable. scopes : the variables of each factor. design : (T, d), CSR.
    forbidden : (T,) entries of the tables that no labelling may have; None: none.
    """

    cards: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    design: sp.csr_array
    forbidden: Flags | None = field(default=None, metadata=OPTIONAL)

    @property
    def n_variables(self) -> int:
        return len(self.cards)

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return int(self.design.shape[1])

    @property
    def n_entries(self) -> int:
        """T, the entries of all tables."""
        return int(self.design.shape[0])

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each factor's table."""
        return tuple(tuple(self.cards[v] for v in scope) for scope in self.scopes)

    @cached_property
    def start(self) -> Index:
        """The first row of each factor in the design, and T at the end; shape (factors + 1,)."""
        return starts([math.prod(shape) for shape in self.shapes])

    @cached_property
    def graph(self) -> nx.Graph:
        """The variables 0 .. n - 1, two of them joined where they share a factor."""
        graph = nx.Graph()
        graph.add_nodes_from(range(self.n_variables))
        for scope in self.scopes:
            graph.add_edges_from(itertools.combinations(scope, 2))
        return graph

    @cached_property
    def strides(self) -> sp.csc_array:
        """(factors, n), sparse: how far a table's entry moves where the label of a variable rises by 1, of the
        variables of its scope."""
        entries: list[tuple[int, int, int]] = []
        for c, scope in enumerate(self.scopes):
            step = 1
            for v in reversed(scope):
                entries.append((step, c, v))
                step *= self.cards[v]
        steps, rows, columns = np.array(entries, dtype=np.intp).reshape(-1, 3).T
        return sp.csc_array(sp.coo_array((steps, (rows, columns)), shape=(len(self.scopes), self.n_variables)))

    def holding(self, v: int) -> tuple[Index, Index]:
        """The factors whose scope has the variable v, ascending, and how far their entries move where it rises."""
        here = slice(*self.strides.indptr[v : v + 2])
        return self.strides.indices[here], self.strides.data[here]

    # -- from parameters to scores, and back ---------------------------------------------------------------------------

    def allowed(self, samples: Labels) -> Flags:
        """Which samples (m, n) have no forbidden entry; (m,)."""
        if self.forbidden is None:
            return np.ones(len(samples), dtype=bool)
        return ~np.asarray(self.forbidden[self.entries(samples)].any(axis=1))

    def masked(self, flat: Vector) -> Vector:
        """The stacked tables (T,), -inf where an entry is forbidden."""
        return flat if self.forbidden is None else np.where(self.forbidden, -np.inf, flat)

    @cached_property
    def largest(self) -> Vector:
        """max |A_j|, the most that theta_j = 1 adds to the score of an entry that is not forbidden; (d,)."""
        rows = self.design if self.forbidden is None else self.design[np.flatnonzero(~self.forbidden)]
        if not rows.shape[0]:
            return np.zeros(self.dimension)
        return np.asarray(abs(rows).max(axis=0).toarray().ravel(), dtype=np.float64)

    def tables(self, theta: Vector) -> list[Tensor]:
        """The score table of each factor, one axis a variable of its scope."""
        flat = self.masked(self.design @ theta)
        return [part.reshape(shape) for part, shape in zip(np.split(flat, self.start[1:-1]), self.shapes)]

    def entries(self, samples: Labels) -> Index:
        """The row of the design that each sample (m, n) chooses of each factor; (m, factors)."""
        return np.asarray((self.strides @ samples.T).T + self.start[:-1], dtype=np.intp, order="C")

    def counts(self, samples: Labels, weights: Vector | None = None) -> Vector:
        """How often each entry of the tables is chosen by samples (m, n), each counted ``weights`` (m,) times; (T,)."""
        chosen = self.entries(samples)
        each = None if weights is None else np.repeat(weights, len(self.scopes))
        return np.bincount(chosen.ravel(), weights=each, minlength=self.n_entries).astype(np.float64)

    def moments(self, marginals: Vector) -> Vector:
        """sum_t A_t marginals_t: the expected features under marginals (T,) of the factors, or the sum of the features
        under counts; shape (d,)."""
        return np.asarray(self.design.T @ marginals, dtype=np.float64)

    def variances(self, marginals: Vector) -> Vector:
        """sum over factors of the variance of their features under ``marginals`` (T,): the variances of the features,
        if factors were independent; (d,)."""
        of_factor = sp.csr_array((marginals, np.arange(self.n_entries), self.start))  # (factors, T)
        means = of_factor @ self.design
        squares = self.design.power(2).T @ marginals
        return np.asarray(np.maximum(squares - np.asarray(means.power(2).sum(axis=0)).ravel(), 0.0))

    def joint_each(self, samples: Labels) -> sp.csr_array:
        """f(x) of each sample (m, n); sparse (m, d)."""
        chosen = self.entries(samples)
        rows = np.repeat(np.arange(len(chosen)), chosen.shape[1])
        ones = np.ones(chosen.size)
        picked = sp.csr_array((ones, (rows, chosen.ravel())), shape=(len(chosen), self.n_entries))
        return sp.csr_array(picked @ self.design)

    def scores(self, theta: Vector, samples: Labels) -> Vector:
        """<theta, f(x)> of each sample (m, n), -inf where one is forbidden; shape (m,)."""
        return np.asarray(self.masked(self.design @ theta)[self.entries(samples)].sum(axis=1))

    def read_samples(self, name: str, samples: ArrayLike) -> Labels:
        """Samples (m, n), at least one. ValueError if there is none, a row has not one label a variable, a label is out
        of range, or a sample is forbidden."""
        why = "one row a sample, one label a variable"
        read = wholes(name, samples, ("samples", self.n_variables), least=0, why=why, minus_one=NOT_KNOWN)
        for v, card in enumerate(self.cards):
            if (read[:, v] >= card).any():
                raise sentence(f"{name} has label {read[:, v].max()} of variable {v}, wanted labels below {card}")
        wrong = np.flatnonzero(~self.allowed(read))
        if len(wrong):
            assert self.forbidden is not None
            i = int(wrong[0])
            c = int(self.forbidden[self.entries(read[i : i + 1])[0]].argmax())
            labels = tuple(read[i, list(self.scopes[c])].tolist())
            raise sentence(
                f"{name}[{i}] has labels {labels} of variables {self.scopes[c]}, which are forbidden: wanted samples "
                "without forbidden labels"
            )
        return read


def read_factors(cards: ArrayLike, scopes: Sequence[ArrayLike], design: Any = None) -> Factors:
    """Read and validate factors.

    Parameters
    ----------
    cards : (n,) number of labels of each variable.
    scopes : the variables of each factor, each named once; at least one factor.
    design : sparse or dense (T, d); None for a tabular model, one free parameter an entry.

    Raises
    ------
    ValueError
        If a scope is empty, names an unknown variable or one twice, or the design has another number of rows.
    """
    read_cards = wholes("cards", cards, ("n",), least=1, what="numbers of labels", kinds="iu").tolist()
    read_scopes = []
    for c, scope in enumerate(sequence("scopes", scopes, "a list of at least one list of variables", least=1)):
        one = wholes(f"scopes[{c}]", scope, ("variables",), least=0, what="variables", kinds="iu").tolist()
        if max(one) >= len(read_cards):
            raise sentence(f"scopes[{c}] names variable {max(one)}, wanted variables from 0 to {len(read_cards) - 1}")
        if len(set(one)) < len(one):
            raise sentence(f"scopes[{c}] names a variable twice, wanted each at most once")
        read_scopes.append(tuple(one))
    n_entries = sum(math.prod(read_cards[v] for v in scope) for scope in read_scopes)
    sized("the entries of all factors", n_entries, n_entries)
    if design is None:
        read_design = sp.csr_array(sp.eye_array(n_entries, format="csr"))
    else:
        given = design if sp.issparse(design) else sp.csr_array(real("design", design, ("entries", "parameters")))
        read_design = sparse("design", given, n_entries, "parameters", why="one row an entry of the tables")
    return Factors(tuple(read_cards), tuple(read_scopes), read_design)


def factors_of_features(cards: ArrayLike, features: Sequence[Any]) -> Factors:
    """Factors from features, one a parameter, as paper 4 writes them.

    Parameters
    ----------
    cards : (n,) number of labels of each variable.
    features : for each parameter a list of pairs (scope, table): its feature is f_k(x) = sum over the pairs of
        table[x of scope]. Several pairs tie one parameter to several places.

    Raises
    ------
    ValueError
        If a pair is none, a scope names unknown variables, or a table has not one axis a variable of the right length.
    """
    listed = sequence("features", features, "a list of one list of pairs (scope, table) a parameter", least=1)
    pairs: list[tuple[int, list[int], Any, str]] = []
    found: dict[tuple[int, ...], int] = {}
    for k, each in enumerate(listed):
        for j, pair in enumerate(sequence(f"features[{k}]", each, "a list of pairs (scope, table)", least=1)):
            name = f"features[{k}][{j}]"
            scope, table = sequence(name, pair, "a pair (scope, table)", length=2)
            variables = wholes(f"{name}[0]", scope, ("variables",), least=0, what="variables", kinds="iu").tolist()
            found.setdefault(tuple(sorted(variables)), len(found))
            pairs.append((k, variables, table, name))
    bare = read_factors(cards, list(found))
    rows, columns, values = [], [], []
    for k, variables, table, name in pairs:
        shape = tuple(bare.cards[v] for v in variables)
        given = real(f"{name}[1]", table, shape, why="one axis a variable of the scope")
        turned = given.transpose([variables.index(v) for v in sorted(variables)]).ravel()
        some = np.flatnonzero(turned)
        rows.append(some + bare.start[found[tuple(sorted(variables))]])
        columns.append(np.full(len(some), k))
        values.append(turned[some])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    design = sp.csr_array(sp.coo_array(entries, shape=(bare.n_entries, len(listed))))
    return Factors(bare.cards, bare.scopes, sparse("features", design))


def tabular_factors(graph: nx.Graph, n_labels: int | ArrayLike, *, nodes: bool = True, tied: bool = False) -> Factors:
    """A table for each edge (u, v), u < v, of a graph, and one for each node.

    Parameters
    ----------
    graph : undirected, on the nodes 0 .. n - 1, or on nodes with names, numbered in the order of ``graph.nodes``; a
        node without an edge has a table of its own in any case.
    n_labels : of every variable, or (n,) of each.
    nodes : whether every node has a table.
    tied : whether all nodes share one table, and all edges another; all variables then have as many labels.

    Raises
    ------
    ValueError
        If the graph is directed, empty or on other numbers than 0 .. n - 1, or ``tied`` meets different numbers of
        labels.
    """
    joined = node_pairs("graph", graph)
    n = len(graph)
    if n == 0:
        raise sentence("graph has no nodes, wanted at least one")
    why = "one number for all nodes, or one a node"
    read = wholes("n_labels", n_labels, (), (n,), least=1, what="numbers of labels", kinds="iu", why=why)
    cards = np.broadcast_to(read, (n,))
    ends = {v for pair in joined for v in pair}
    alone = [(v,) for v in range(n) if flag("nodes", nodes) or v not in ends]
    edges = sorted((min(u, v), max(u, v)) for u, v in joined)
    scopes: list[tuple[int, ...]] = [*alone, *edges]
    bare = read_factors(cards, scopes)
    if not flag("tied", tied):
        return bare
    if len(set(cards.tolist())) > 1:
        raise sentence(f"n_labels are {sorted(set(cards.tolist()))}, wanted one number where parameters are tied")
    size = int(cards[0])
    blocks = [sp.eye_array(size)] * len(alone)
    pairs = [sp.eye_array(size * size)] * len(edges)
    parts = [sp.vstack(part) for part in (blocks, pairs) if part]
    return Factors(bare.cards, bare.scopes, sparse("design", sp.csr_array(sp.block_diag(parts))))
