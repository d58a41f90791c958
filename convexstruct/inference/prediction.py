"""Labelling examples by learned weights of joint features: the problem's own, and new ones that come without labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convexstruct.arrays import Labels, Vector
from convexstruct.features.graphs.gram import GramFeatures
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_examples
from convexstruct.inference.exact import Inference
from convexstruct.validation.arguments import mapping, refuse, sequence

#: What examples are, in the sentence that refuses others.
WANTED = "a list of one table of node features for each example, or a mapping with 'node_features' and 'edges'"


def decode(features: PairwiseFeatures, oracle: Inference, w: Vector) -> Labels:
    """argmax_y <w, f(x_i, y)>, example after example; flat (P,). Where ``features`` have no edges, the weights of edges
    at the end of w are not used."""
    own = w[: features.dimension]
    return oracle.best(features.node_scores(own), features.edge_scores(own)).labels


def read_others(examples: Any, own: PairwiseFeatures, kernel: GramFeatures | None = None) -> PairwiseFeatures:
    """New examples without labels: a list of node features, or a mapping with edges and edge features besides; by
    default the graphs are of the kind of ``own``. kernel : maps kernel values to node features, where there is one.
    ValueError if there is no example, or something does not fit; see `read_examples`."""
    if isinstance(examples, PairwiseFeatures):
        return examples
    given: dict[str, Any] = {"node_features": examples}
    if isinstance(examples, Mapping):
        given = dict(mapping("examples", examples, {"node_features"}, {"edges", "edge_features"}))
    elif not isinstance(examples, (list, tuple)):
        refuse("examples", examples, WANTED)
    if kernel is not None:
        tables = sequence("node_features", given["node_features"], "a list of one table of kernel values an example")
        given["node_features"] = [kernel.map(table) for table in tables]
    return read_examples(**given, like=own)


def of_one_kind(other: PairwiseFeatures, own: PairwiseFeatures) -> None:
    """ValueError unless ``other`` has the labels and features that the weights learned from ``own`` are for."""
    if other.n_labels != own.n_labels or other.n_node_features != own.n_node_features:
        raise ValueError(
            f"examples have {other.n_labels} labels and {other.n_node_features} node features, wanted "
            f"{own.n_labels} and {own.n_node_features} as in training"
        )
    alike = (other.n_edge_features, other.associative) == (own.n_edge_features, own.associative)
    if other.n_edges and not alike:
        raise ValueError(f"examples have {_edges_of(other)}, wanted {_edges_of(own)} as in training")


def _edges_of(features: PairwiseFeatures) -> str:
    kind = "associative " if features.associative else ""
    if features.edge_features is None:
        return f"{kind}edges without features" if features.n_edges else "no edges"
    return f"{features.n_edge_features} {kind}edge features"
