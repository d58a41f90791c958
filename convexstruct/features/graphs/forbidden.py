"""Joint labels that no labelling may have, and sets of labels that a sample allows: readers for models of `Factors`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import Flags, Labels
from convexstruct.features.graphs.factors import Factors, read_factors
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.validation.arguments import LISTS, refuse, sentence, sequence
from convexstruct.validation.arrays import flags, frozen, raw, wholes
from convexstruct.validation.sparse import sparse


def forbid(factors: Factors, forbidden: Any) -> Factors:
    """The factors with more joint labels forbidden.

    Parameters
    ----------
    forbidden : (S, S) flags, True where no factor of two variables may have this pair of labels, in the order of its
        scope. Or a list of pairs (scope, table): True in the table (labels of scope[0], labels of scope[1], ...) where
        these variables may not have these labels; a scope that no factor has becomes a factor without parameters.
        None, or an empty list: nothing more.

    Raises
    ------
    ValueError
        If ``factors`` is not of that type, a scope names unknown variables, or a table has another shape.
    """
    if not isinstance(factors, Factors):
        refuse("factors", factors, "Factors: see read_factors, factors_of_features, tabular_factors")
    if forbidden is None:
        return factors
    each = _pairs(factors, forbidden)
    scopes = list(factors.scopes)
    at = {frozenset(scope): c for c, scope in reversed(list(enumerate(scopes)))}
    for scope, _ in each:
        if frozenset(scope) not in at:
            at[frozenset(scope)] = len(scopes)
            scopes.append(scope)
    bare = read_factors(factors.cards, scopes) if len(scopes) > len(factors.scopes) else factors
    found = np.zeros(bare.n_entries, dtype=bool)
    if factors.forbidden is not None:
        found[: factors.n_entries] = factors.forbidden
    for scope, table in each:
        c = at[frozenset(scope)]
        found[bare.start[c] : bare.start[c + 1]] |= table.transpose([scope.index(v) for v in scopes[c]]).ravel()
    if not found.any():
        return factors
    more = sp.csr_array((bare.n_entries - factors.n_entries, factors.dimension))
    design = sparse("design", sp.csr_array(sp.vstack([factors.design, more])))
    return replace(factors, scopes=tuple(scopes), design=design, forbidden=frozen(found))


def read_pairs(forbidden: ArrayLike | None, features: PairwiseFeatures) -> Flags | None:
    """The pairs of labels (S, S) that no edge may have; None where there are none. ValueError if a truth has one."""
    if forbidden is None:
        return None
    pairs = flags("forbidden", forbidden, (features.n_labels, features.n_labels), why="one entry a pair of labels")
    (s, t), at = features.truth[features.edges].T, features.edge_example
    wrong = np.flatnonzero(pairs[s, t])
    if len(wrong):
        e = int(wrong[0])
        raise ValueError(
            f"forbidden[{s[e]}, {t[e]}] is True, but the true labels of example {at[e]} have this pair: wanted "
            "pairs that no truth has"
        )
    return pairs if pairs.any() else None


def _pairs(factors: Factors, forbidden: Any) -> list[tuple[tuple[int, ...], Flags]]:
    """(scope, table) of everything that ``forbidden`` forbids."""
    if not _is_list_of_pairs(forbidden):
        scopes = [(c, scope) for c, scope in enumerate(factors.scopes) if len(scope) == 2]
        sizes = sorted({size for c, _ in scopes for size in factors.shapes[c]} or {max(factors.cards)})
        if len(sizes) > 1:
            raise sentence(
                f"forbidden is no list of pairs (scope, table), wanted one where variables have from {sizes[0]} to "
                f"{sizes[-1]} labels"
            )
        table = flags("forbidden", forbidden, (sizes[0], sizes[0]), why="one entry a pair of labels")
        return [(scope, table) for _, scope in scopes]
    found = []
    for j, pair in enumerate(forbidden):
        given, table = sequence(f"forbidden[{j}]", pair, "a pair (scope, table)", length=2)
        name = f"forbidden[{j}][0]"
        scope = tuple(wholes(name, given, ("variables",), least=0, what="variables", kinds="iu").tolist())
        if max(scope) >= factors.n_variables:
            raise sentence(f"{name} names variable {max(scope)}, wanted variables from 0 to {factors.n_variables - 1}")
        if len(set(scope)) < len(scope):
            raise sentence(f"{name} names a variable twice, wanted each at most once")
        shape = tuple(factors.cards[v] for v in scope)
        found.append((scope, flags(f"forbidden[{j}][1]", table, shape, why="one axis a variable of the scope")))
    return found


def _is_list_of_pairs(forbidden: Any) -> bool:
    """Whether it is a list that is empty, or whose first entry is a pair with a table, rather than flags."""
    if not isinstance(forbidden, LISTS):
        return False
    if not len(forbidden):
        return True
    first = forbidden[0]
    return isinstance(first, LISTS) and len(first) == 2 and isinstance(first[1], (*LISTS, np.ndarray))


def read_partial(name: str, samples: ArrayLike, factors: Factors) -> Labels | Flags:
    """Samples that are known in part: labels (m, n), -1 where one is hidden; or flags (m, n, S), S the largest number
    of labels, True where a variable may have a label and False beyond the labels that it has. ValueError if they are
    neither, or a variable is left without any label."""
    n, cards = factors.n_variables, np.array(factors.cards)
    if raw(name, samples).ndim != 3:
        read = wholes(name, samples, ("samples", n), least=-1, why="one label a variable, or -1; or flags of labels")
        if (read >= cards).any():
            v = int(np.flatnonzero((read >= cards).any(axis=0))[0])
            raise sentence(f"{name} has label {read[:, v].max()} of variable {v}, wanted labels below {cards[v]}")
        return read
    found = flags(name, samples, ("samples", n, int(cards.max())), why="one entry a variable and label")
    beyond = (found & (np.arange(cards.max()) >= cards[:, None])).any(axis=(0, 2))
    if beyond.any():
        v = int(beyond.argmax())
        raise sentence(f"{name} allows labels of variable {v} that it has not, wanted False from label {cards[v]} on")
    i, v = (int(at) for at in np.unravel_index((~found.any(axis=2)).argmax(), found.shape[:2]))
    if not found[i, v].any():
        raise sentence(f"{name}[{i}] allows no label of variable {v}, wanted at least one")
    return found


def labels_allowed(samples: Labels | Flags, v: int, card: int) -> Flags:
    """The labels that each sample lets variable ``v`` have, (m, card); samples as `read_partial` reads them."""
    if samples.ndim == 3:
        return np.asarray(samples[:, v, :card], dtype=bool)
    return np.asarray((samples[:, v, None] < 0) | (samples[:, v, None] == np.arange(card)))
