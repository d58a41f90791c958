"""The parts of the experiment on snakes, on small made-up images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convexstruct.families.structured_svm.experiments import snakes
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.quick_runs import snakes as made_up


@pytest.mark.parametrize("name", ["cells", "rows"])
def test_cells_and_rows_as_examples_pose_the_problem_of_whole_images(name: str) -> None:
    images = made_up(3, 2)
    g, whole = snakes.graphs(name, images), images.graphs("colours")
    more: dict[str, Any] = {"edges": "none"}
    if name == "rows":
        assert g.edge_features is not None
        across = whole.edges[whole.edges[:, 1] == whole.edges[:, 0] + 1]
        edges = [across[across[:, 0] // 15 == i] - 15 * i for i in range(3)]
        more = {"edges": edges, "edge_features": np.split(g.edge_features, np.cumsum([*map(len, edges)])[:-1])}
    labels = np.split(images.labels, images.node_start[1:-1])
    by_image = StructuredSVM.read(g.node_features, labels, g.n_labels, C_mean=2.0, **more)
    by_part = snakes.fit(name, images, 2.0).problem
    w = np.random.default_rng(3).normal(size=by_part.dimension)
    assert by_part.primal({"w": w}) == pytest.approx(by_image.primal({"w": w}), rel=ROUNDING)


@pytest.mark.slow
def test_what_is_proved_exact_is_the_best_labelling_written_out() -> None:
    images = made_up(3, 7, 2, 2)
    found = snakes.fit("grid", images, 1.0)
    w = np.random.default_rng(8).normal(size=found.problem.dimension)
    decoded = snakes.decode("grid", found._replace(solution=replace(found.solution, point={"w": w})), images)
    every = enumerate_pairwise(found.problem.features, found.problem.loss)
    scores = every.joint @ w
    for i, labels in enumerate(np.split(decoded.labels, 3)):
        of_image = scores[every.example == i]
        mine = next(r for r in np.flatnonzero(every.example == i) if np.array_equal(every.labels[r], labels))
        assert not decoded.exact[i] or scores[mine] >= of_image.max() - HIGH.gap * max(1.0, abs(of_image.max()))
    assert decoded.exact.any()
