"""The parts of the experiment on snakes, on small made-up images."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.datasets.real.snakes import Snakes
from convexstruct.families.structured_svm.experiments import snakes
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.quick_runs import quick
from tests.families.quick_runs import snakes as made_up


@pytest.mark.parametrize("shape", [(3, 5), (4, 1), (1, 4)])
def test_rows_are_chains_to_the_right_and_cells_have_no_edges(shape: tuple[int, int]) -> None:
    height, width = shape
    images = made_up(2, 1, height, width)
    rows = snakes.graphs("rows", images)
    assert (rows.n_examples, len(rows.edges)) == (2 * height, 2 * height * (width - 1))
    expected = np.column_stack((np.arange(width - 1), np.arange(1, width)))
    assert all(np.array_equal(each, expected) for each in rows.edges_each)
    assert len(snakes.graphs("cells", images).edges) == 0
    assert len(snakes.graphs("grid", images).edges) == 2 * (height * (width - 1) + width * (height - 1))


def test_cells_as_examples_pose_the_problem_of_whole_images() -> None:
    images = made_up(3, 2)
    g = images.graphs("colours")
    by_image = StructuredSVM.read(g.node_features, images_labels(images), g.n_labels, C_mean=2.0, edges="none")
    by_cell = snakes.fit("cells", images, 2.0).problem
    w = np.random.default_rng(3).normal(size=by_cell.dimension)
    assert by_cell.primal({"w": w}) == pytest.approx(by_image.primal({"w": w}), rel=ROUNDING)


def test_rows_as_examples_pose_the_problem_of_whole_images() -> None:
    images = made_up(3, 2)
    g = snakes.graphs("rows", images)
    assert g.edge_features is not None
    whole = images.graphs("colours")
    across = whole.edges[:, 1] == whole.edges[:, 0] + 1
    counts = [int((across & (whole.edges[:, 0] // 15 == i)).sum()) for i in range(3)]
    by_image = StructuredSVM.read(
        g.node_features, images_labels(images), g.n_labels, C_mean=2.0,
        edges=[pairs - 15 * i for i, pairs in enumerate(np.split(g.edges, np.cumsum(counts)[:-1]))],
        edge_features=np.split(g.edge_features, np.cumsum(counts)[:-1]),
    )  # fmt: skip
    by_row = snakes.fit("rows", images, 2.0).problem
    w = np.random.default_rng(3).normal(size=by_row.dimension)
    assert by_row.primal({"w": w}) == pytest.approx(by_image.primal({"w": w}), rel=ROUNDING)


def images_labels(images: Snakes) -> list[np.ndarray]:
    return np.split(images.labels, images.node_start[1:-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", snakes.MODELS)
def test_every_model_learns_snakes_that_can_be_seen(name: str) -> None:
    train, test = made_up(6, 4, 2, 3), made_up(6, 5, 2, 3)
    found = snakes.fit(name, train, 3.0)
    assert found.solution.status is Status.OPTIMAL
    decoded = snakes.decode(name, found, test)
    np.testing.assert_array_equal(decoded.labels, test.labels)
    assert decoded.exact.all()


def test_cells_cannot_count_and_rows_can() -> None:
    train = made_up(6, 6, 2, 8)
    wrong = {}
    for name in ("cells", "rows"):
        found = snakes.fit(name, train, 30.0)
        wrong[name] = (snakes.decode(name, found, train).labels != train.labels).sum()
    assert wrong["rows"] == 0
    assert wrong["cells"] >= 6  # the cells in the middle look alike


@pytest.mark.slow
def test_what_is_proved_exact_is_the_best_labelling_written_out() -> None:
    images = made_up(3, 7, 2, 2)
    found = snakes.fit("grid", images, 1.0)
    w = np.random.default_rng(8).normal(size=found.problem.dimension)
    point = type(found.solution)(
        {"w": w}, None, found.solution.certificate, found.solution.status, found.solution.trace
    )
    decoded = snakes.decode("grid", found._replace(solution=point), images)
    every = enumerate_pairwise(found.problem.features, found.problem.loss)
    scores = every.joint @ w
    for i, labels in enumerate(np.split(decoded.labels, 3)):
        of_image = scores[every.example == i]
        mine = next(r for r in np.flatnonzero(every.example == i) if np.array_equal(every.labels[r], labels))
        assert not decoded.exact[i] or scores[mine] >= of_image.max() - HIGH.gap * max(1.0, abs(of_image.max()))
    assert decoded.exact.any()


@pytest.mark.slow
def test_the_first_row_is_the_background_and_the_grid_is_relaxed() -> None:
    result = quick("snakes").result
    assert result.column("model") == ["all background", *snakes.MODELS]
    assert result.column("inference") == [None, "exact", "exact", "relaxed"]
    assert result.column("test")[0] == 0.5
