"""What a tagger learnt: the features of the largest weights for each label, and the transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convexstruct.arrays import Index, Matrix, Tensor, Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The most labels that the picture shows, and the most for which it names the transitions.
SHOWN_LABELS = 12


@dataclass(frozen=True)
class Strongest:
    """The weights that are largest in size, largest first; it prints as a table.

    features : one record a label and feature, {"label", "feature", "weight"}, the labels in order. edges : one record
    a pair of labels at the ends of an edge, {"edge_feature", "from", "to", "weight"}; both as a DataFrame takes them.
    """

    features: list[dict[str, Any]]
    edges: list[dict[str, Any]]

    def __str__(self) -> str:
        labels = dict.fromkeys(record["label"] for record in self.features)
        parts = [_table(f"label {label}", [(r["feature"], r["weight"]) for r in self._of(label)]) for label in labels]
        named = [(f"{r['from']} -> {r['to']}" + _of_kind(r), r["weight"]) for r in self.edges]
        return "\n\n".join([*parts, _table("edges", named)])

    def plot(self) -> Figure:
        """A picture: the features of each label (of the first twelve) as bars, and the edges that are listed."""
        from convexstruct.plots import GREEN, LOWER, UPPER, named_bars, panels

        labels = list(dict.fromkeys(record["label"] for record in self.features))[:SHOWN_LABELS]
        shown = [(f"label {label}", [(r["feature"], r["weight"]) for r in self._of(label)]) for label in labels]
        edges = [(f"{r['from']} -> {r['to']}" + _of_kind(r), r["weight"]) for r in self.edges]
        shown += [("edges", edges)] * bool(edges)
        columns = min(3, len(shown))
        rows = -(-len(shown) // columns)
        longest = max(len(bars) for _, bars in shown)
        figure, grid = panels(columns, rows, size=(4.2 * columns, (0.7 + 0.2 * longest) * rows))
        for axes, (title, bars) in zip(grid, shown):
            weights = [weight for _, weight in bars]
            positive = GREEN if title == "edges" else LOWER
            axes.barh(range(len(bars)), weights, color=[positive if weight > 0 else UPPER for weight in weights])
            named_bars(axes, [name for name, _ in bars])
            axes.axvline(0.0, color="black", lw=0.8)
            axes.tick_params(labelsize="small")
            axes.set_title(title, fontsize="medium")
        for axes in grid[len(shown) :]:
            axes.set_axis_off()
        return figure

    def _of(self, label: Any) -> list[dict[str, Any]]:
        return [record for record in self.features if record["label"] == label]


def strongest(classes: NDArray[Any], names: list[str], coef: Matrix, edge_coef: Tensor, most: int) -> Strongest:
    """classes (S,), names of the F features, coef (S, F), edge_coef (E, S, S) or, of an associative network, (E, S).
    most : features a label, and pairs of labels in all."""
    labels = classes.tolist()
    features = [
        {"label": label, "feature": names[at], "weight": float(row[at])}
        for label, row in zip(labels, coef)
        for at in _largest(row, most)
    ]
    if edge_coef.ndim == 2:
        edge_coef = edge_coef[:, :, None] * np.eye(len(labels))
    edges = [
        {"edge_feature": int(k), "from": labels[u], "to": labels[v], "weight": float(edge_coef[k, u, v])}
        for k, u, v in zip(*np.unravel_index(_largest(edge_coef.ravel(), most), edge_coef.shape))
    ]
    if len(edge_coef) == 1:
        edges = [{name: value for name, value in edge.items() if name != "edge_feature"} for edge in edges]
    return Strongest(features, edges)


def _largest(weights: Vector, most: int) -> Index:
    """Places of the weights of the largest size that are not 0, largest first; the earlier ones of equal size."""
    order: Index = np.argsort(-np.abs(weights), kind="stable")[:most]
    return np.asarray(order[weights[order] != 0])


def _of_kind(edge: dict[str, Any]) -> str:
    return f" (edge feature {edge['edge_feature']})" if "edge_feature" in edge else ""


def _table(title: str, rows: list[tuple[str, float]]) -> str:
    return "\n".join([title, *(f"  {weight:+9.4f}  {name}" for name, weight in rows)])
