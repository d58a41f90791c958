"""Problems whose examples lie in files: the values are those of the same examples here, and faults name the file."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.features.example_files import SAMPLED, ExampleFile
from convexstruct.inference import file_parts
from convexstruct.inference.hidden_markov import random_models
from convexstruct.inference.shards import sharded
from tests.inference.test_shards import Inline

#: The most that bounds from files may differ from those of the same examples here, relative.
ALIKE = 1e-9
#: Sequences of a file; those of the last have one node each.
SIZES = (4, 1, 7, 3)
LABELS, FEATURES, SYMBOLS = 3, 4, 5


class Data:
    """Sequences, in files of ``folder`` and as lists."""

    def __init__(self, folder: Path, sparse: bool = False, n_labels: int = LABELS, sizes: tuple[int, ...] = SIZES):
        rng = np.random.default_rng(5)
        n, self.n_labels, self.folder = sum(sizes), n_labels, folder
        lengths = rng.integers(1, 6, n)
        lengths[n - sizes[-1] :] = 1
        self.x: list[Any] = [rng.normal(size=(m, FEATURES)) for m in lengths]
        self.y = [x @ rng.normal(size=(FEATURES, n_labels)) for x in self.x]
        self.y = [(scores + rng.gumbel(size=scores.shape)).argmax(axis=1) for scores in self.y]
        if sparse:
            self.x = [sp.csr_array(np.where(x > 0, x, 0.0)) for x in self.x]
        self.symbols = [rng.integers(0, SYMBOLS, m) for m in lengths]
        self.weights, ends = rng.uniform(0.5, 2.0, n), np.cumsum((0, *sizes))
        for k, (i, j) in enumerate(itertools.pairwise(ends)):
            some: Any = {"symbols": self.symbols[i:j], "n_symbols": SYMBOLS, "weights": self.weights[i:j]}
            cs.datasets.write_examples(folder / f"{k}.npz", self.x[i:j], self.y[i:j], n_labels, **some)

    def both(self, kind: Any, memory: int = 2**20, **more: Any) -> tuple[Any, Any]:
        """The problem of these sequences here, and from the files."""
        if kind is RISK:
            x: Any = (sp.vstack if sp.issparse(self.x[0]) else np.concatenate)(self.x)
            rest = {name: value for name, value in more.items() if name != "loss"}
            rest |= {"n_classes": self.n_labels} if more["loss"] == "multiclass" else {}
            weights = np.repeat(self.weights, [len(y) for y in self.y])
            here = getattr(RISK, more["loss"])(x, np.concatenate(self.y), weights=weights, **rest)
        elif kind is MARGIN:
            here = MARGIN.hmm(self.symbols, self.y, self.n_labels, SYMBOLS, weights=self.weights, **more)
        elif kind is HMM:
            here = HMM.read(self.symbols, n_symbols=SYMBOLS, weights=self.weights, **more)
        else:
            here = kind.read(self.x, self.y, self.n_labels, weights=self.weights, **more)
        return here, kind.from_files(self.folder, memory=memory, **more)


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path)


FIELD, SVM, HMM, RISK = cs.ConditionalRandomField, cs.StructuredSVM, cs.HiddenMarkov, cs.RegularizedRisk
MARGIN = cs.GenerativeMargin
#: Distributions by which no state shows the last symbol.
ZERO = np.concatenate((np.full(LABELS + LABELS**2, 1 / LABELS), np.tile([0.25, 0.25, 0.25, 0.25, 0.0], LABELS)))
COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
KINDS = [
    pytest.param(FIELD, {"C_mean": 2.0}, id="field"),
    pytest.param(FIELD, {"C": 0.5, "l1": 0.3}, id="field-l1"),
    pytest.param(FIELD, {"l1": 0.5}, id="field-l1-alone"),
    pytest.param(SVM, {"C_mean": 3.0}, id="svm"),
    pytest.param(SVM, {"lam": 1e-2, "loss": COSTS}, id="svm-costs"),
    pytest.param(HMM, {"n_states": 2}, id="hmm"),
    pytest.param(MARGIN, {"eta": 0.1}, id="margin"),
    pytest.param(MARGIN, {"eta": 0.5, "loss": COSTS}, id="margin-costs"),
    pytest.param(MARGIN, {"eta": 0.2, "c": ZERO}, id="margin-ruled-out"),
    pytest.param(RISK, {"loss": "multiclass", "lam": 1e-2}, id="risk"),
    pytest.param(RISK, {"loss": "multiclass", "lam": 0.1, "cost": COSTS}, id="risk-costs"),
    pytest.param(RISK, {"loss": "ordinal", "lam": 1e-2, "thresholds": [-0.5, 1.0]}, id="risk-ordinal"),
]


def places(threads: bool) -> Iterator[Any]:
    yield ThreadPoolExecutor(2) if threads else nullcontext(Inline())
    yield ProcessPoolExecutor(2, mp_context=get_context("fork"))


def points(kind: Any, here: Any) -> Iterator[tuple[Any, Any]]:
    """The trivial point and another, with a dual point each."""
    if kind is HMM:
        yield here.trivial()
        yield here.point_of(random_models(1, here.n_states, SYMBOLS, seed=2)), {}
        return
    for w in (np.zeros(here.dimension), np.random.default_rng(2).normal(size=here.dimension)):
        dual = {"gibbs": w[None], "gibbs_shares": np.full((1, getattr(here, "n_examples", 0)), 0.9)}
        if kind is MARGIN:
            dual |= {"gibbs_shares": np.full((1, 1), 0.01), "gibbs_loss": np.array([0.7])}
            yield here.shift(w), dual
        elif kind is RISK:
            yield w.reshape(here.shape), {"gibbs": w[None], "gibbs_loss": np.array([0.7])}
        else:
            yield w, dual | ({"gibbs_loss": np.array([0.7])} if kind is SVM else {})


def alike(one: Any, other: Any) -> None:
    assert one.primal == pytest.approx(other.primal, rel=ALIKE)
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=ALIKE)


@pytest.mark.parametrize(
    ("kind", "more", "at"),
    [pytest.param(*each.values, at, id=f"{each.id}{', sparse' * (at % 2)}") for at, each in enumerate(KINDS)],
)
def test_bounds_of_a_run_from_files_are_those_of_the_examples_here(
    kind: Any, more: Any, at: int, tmp_path: Path
) -> None:
    data = Data(tmp_path, sparse=at % 2 == 1)
    here, filed = data.both(kind, **more)
    limit: Any = {"tol": 1e-6, "max_iterations": 8 if kind in (FIELD, HMM) else 2}
    wanted, kept = (cs.solve(problem, **limit) for problem in (here, filed))
    streamed = cs.solve(data.both(kind, memory=0, **more)[1], **limit)
    alike(streamed, kept)
    for place in places(threads=at % 4 < 2):
        with place as executor:
            alike(cs.solve(filed, executor=executor, **limit), kept)
    if kind in (FIELD, HMM):  # the others here keep numbers an example, or have a metric of all
        assert kept.iterations == wanted.iterations
        alike(kept, wanted)
    assert kept.lower_bound <= wanted.primal
    assert wanted.lower_bound <= kept.primal
    alike(cs.certify(here, kept.point, in_memory(kind, here, kept.dual_point)), kept)


def in_memory(kind: Any, here: Any, dual: Any) -> Any:
    """The dual point of a run from files as that of the problem of the examples here."""
    if kind is MARGIN and dual:
        return {**dual, "gibbs_shares": np.repeat(dual["gibbs_shares"], here.n_examples, axis=1)}
    if kind is not RISK or not dual:
        return {"alpha": np.zeros(here.n_pieces)} if kind is RISK else dual
    alpha = softmax(here, dual["gibbs"][0], float(dual["gibbs_loss"][0]))
    gain, pull = float(here.loss.offset @ alpha), here.adjoint(alpha)
    return {"alpha": alpha * min(1.0, gain * here.lam / float((pull**2).sum()))}


def softmax(here: Any, theta: Any, loss: float) -> Any:
    """alpha: the shares of the pieces of each group, and of 0, by their scores."""
    scores, alpha = np.asarray(here.matrix() @ theta) + loss * here.loss.offset, []
    for low, high, share in zip(here.loss.start[:-1], here.loss.start[1:], here.shares):
        each = np.exp(np.append(scores[low:high], 0.0) - max(scores[low:high].max(), 0.0))
        alpha.append(share * each[:-1] / each.sum())
    return np.concatenate(alpha)


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_values_at_any_point_are_those_of_the_examples_here(kind: Any, more: Any, data: Data) -> None:
    here, filed = data.both(kind, **more)
    assert filed.trivial_value == pytest.approx(here.trivial_value, rel=ALIKE)
    for w, dual in points(kind, here):
        alike(cs.certify(filed, w, dual), cs.certify(here, w, in_memory(kind, here, dual)))
        alike(cs.certify(sharded(filed, Inline()), w, {}), cs.certify(here, w, in_memory(kind, here, {})))


@pytest.mark.parametrize("n_labels", [1, 2])
@pytest.mark.parametrize("kind", [FIELD, SVM])
def test_values_are_those_of_all_labellings_written_out(kind: Any, n_labels: int, tmp_path: Path) -> None:
    data = Data(tmp_path, n_labels=n_labels, sizes=(2, 1))
    _, filed = data.both(kind, C=0.7)
    w = np.random.default_rng(1).normal(size=filed.dimension)
    nodes, table = w[: n_labels * FEATURES].reshape(n_labels, -1), w[n_labels * FEATURES :].reshape(n_labels, -1)
    value = 0.5 * float(w @ w)
    for x, y, weight in zip(data.x, data.y, data.weights):

        def score(z: Any, x: Any = x) -> float:
            return float(sum(x[t] @ nodes[s] for t, s in enumerate(z)) + sum(table[i] for i in itertools.pairwise(z)))

        every = list(itertools.product(range(n_labels), repeat=len(y)))
        if kind is FIELD:
            most = math.log(sum(math.exp(score(z)) for z in every))
        else:
            most = max(score(z) + sum(a != b for a, b in zip(z, y)) for z in every)
        value += 0.7 * weight * (most - score(y))
    assert cs.certify(filed, w).claimed == pytest.approx(value, rel=1e-12)
    assert cs.solve(filed, tol=1e-3).status is cs.Status.OPTIMAL


@pytest.mark.parametrize(("kind", "more"), [(SVM, {"lam": 1e-2}), (RISK, {"loss": "multiclass", "lam": 1e-2})])
def test_tempering_goes_on_at_the_temperature_at_which_a_saved_run_stopped(
    kind: Any, more: Any, tmp_path: Path
) -> None:
    data = Data(tmp_path, sizes=(9, 1, 14, 6, 3))
    _, filed = data.both(kind, **more)
    cs.solve(filed, max_iterations=5, tol=1e-9).save(data.folder / "run")
    left = cs.Solution.load(data.folder / "run", filed)
    found = cs.solve(filed, start=left, max_iterations=2, tol=1e-9)
    assert found.primal - found.lower_bound < 0.9 * (left.primal - left.lower_bound)
    anew = cs.solve(filed, start=replace(left, dual_point={}), max_iterations=2, tol=1e-9)
    assert anew.trace.lower_bound[-1] < found.trace.lower_bound[-1]


def test_labels_0_and_1_of_a_binary_risk_stand_for_signs_also_where_a_file_has_one_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, 2)), np.array([0, 0, 0, 0, 1, 0, 1, 1, 1])
    for k, (i, j) in enumerate([(0, 4), (4, 6), (6, 9)]):
        cs.datasets.write_examples(tmp_path / f"{k}.npz", [x[i:j]], [y[i:j]], 2)
    filed = RISK.from_files(tmp_path, "binary", 0.1)
    found, here = cs.solve(filed, tol=cs.MID), RISK.binary(x, 2 * y - 1, 0.1)
    assert found.status is cs.Status.OPTIMAL
    alike(cs.certify(here, found.point, in_memory(RISK, here, found.dual_point)), found)
    assert filed.predict(found.point, x) == here.predict(found.point, x)
    assert cs.certify(filed, found.point, {"gibbs": np.full((1, 2), np.nan), "gibbs_loss": np.ones(1)}).lower_bound < 0
    with pytest.raises(ValueError, match="'n_pieces' would need all of them here"):
        filed.n_pieces  # noqa: B018


def test_a_process_reads_each_file_once_if_it_may_keep_it_and_else_each_time(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_parts._kept.clear()
    reads, read = [], ExampleFile.read

    def counted(file: ExampleFile) -> Any:
        reads.append(file.path)
        return read(file)

    monkeypatch.setattr(ExampleFile, "read", counted)
    n, w = len(SIZES), np.zeros(LABELS * (FEATURES + LABELS))
    small = 4 * file_parts.TAKEN * SIZES[1] * FEATURES * 6  # room for the second file at least, and not for all
    for memory, wanted in ((2**20, n), (0, 5 * n), (small, None)):
        problem = FIELD.from_files(data.folder, memory=memory, C=1.0)
        reads.clear()
        for _ in range(5):
            problem.expectation(w)
        assert len(reads) == wanted if wanted else n < len(reads) < 5 * n
    one = sum(part.size for part in problem.shards.parts)
    earlier, later = (FIELD.from_files(data.folder, memory=one, C=C) for C in (1.0, 2.0))
    for made in (earlier, later, later, later):
        reads.clear()
        made.expectation(w)
    assert not reads
    assert set(file_parts._kept) == set(later.shards.parts)


@pytest.mark.parametrize(("kind", "more"), KINDS[::3])
def test_what_is_not_kept_is_freed_at_once_and_waits_for_no_search_for_circles(
    kind: Any, more: Any, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    problem = file_parts.FilePart.problem

    def seen(part: Any) -> Any:
        assert not [each for each in made if each() is not None]
        made.append(weakref.ref(found := problem(part)))
        return found

    monkeypatch.setattr(file_parts.FilePart, "problem", seen)
    gc.collect()
    gc.disable()
    try:
        cs.solve(kind.from_files(data.folder, memory=0, **more), max_iterations=2)
    finally:
        gc.enable()
    assert len(made) >= 4 * len(SIZES)


def test_the_longest_sequences_stand_for_all_where_sizes_decide(tmp_path: Path) -> None:
    x, y = np.ones((SAMPLED + 3, 2)), [[0]] * (SAMPLED - 1) + [[0, 1], [1, 0]]
    cs.datasets.write_examples(tmp_path / "a.npz", x, y, 2)
    features = FIELD.from_files(tmp_path, C=1.0).features
    assert features.n_examples == SAMPLED + 1
    assert features.sample.n_examples == SAMPLED
    assert features.sample.n_edges == 2


def test_forbidden_pairs_are_kept_and_a_truth_that_has_one_is_named(tmp_path: Path) -> None:
    pairs = np.array([[False, True], [False, False]])  # no 1 after a 0
    labels: Any = [[[1, 0, 0], [1, 1]], [[0], [1, 0]], [[1], [0, 1]]]
    x: Any = [[np.ones((len(y), 1)) for y in each] for each in labels]
    for k, each in enumerate(labels):
        cs.datasets.write_examples(tmp_path / f"{k}.npz", x[k], each, 2)
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    here = FIELD.read(x[0] + x[1], labels[0] + labels[1], 2, C=1.0, forbidden=pairs)
    alike(cs.solve(FIELD.from_files(paths[:2], C=1.0, forbidden=pairs)), cs.solve(here))
    said = rf"^{paths[2]} is no file of sequences to work on: forbidden\[0, 1\] is True, but"
    with pytest.raises(ValueError, match=said):
        cs.solve(FIELD.from_files(paths, C=1.0, forbidden=pairs))


# -- faults ------------------------------------------------------------------------------------------------------------


def damaged(path: Path, **arrays: Any) -> None:
    with np.load(path) as file:
        found = dict(file) | arrays
    np.savez(path, **{name: array for name, array in found.items() if array is not None})


def entry(path: Path, name: str, at: Any, value: Any) -> None:
    with np.load(path) as file:
        array = file[name]
    array[at] = value
    damaged(path, **{name: array})


def flipped(path: Path) -> None:
    """Another bit in the last of the features."""
    with np.load(path) as file:
        sought = file["node_features"].tobytes()
    content = bytearray(path.read_bytes())
    content[content.index(sought) + len(sought) - 1] ^= 1
    path.write_bytes(content)


def second_of(path: Path) -> int:
    """The first node of the file's second sequence."""
    with np.load(path) as file:
        return int(file["lengths"][0])


FAULTS: dict[str, tuple[Any, str]] = {
    "missing": (lambda path: path.unlink(), "No such file"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is no whole archive of arrays"),
    "without bytes": (lambda path: path.write_bytes(b""), "it is no whole archive of arrays"),
    "byte": (lambda path: flipped(path), "Bad CRC-32 for file 'node_features.npy'"),
    "pickle": (lambda path: damaged(path, weights=np.array([{}] * 7)), "'weights' .* nothing is unpickled"),
    "wide": (lambda path: damaged(path, n_labels=np.array(2**40)), "n_labels is 1099511627776, wanted at most"),
    "wrapped": (lambda path: entry(path, "lengths", 0, 2**62), r"lengths\[0\] is 4611686018427387904, wanted .* 1\d"),
    "text": (lambda path: path.write_text("x"), "is no whole archive of arrays"),
    "nan": (lambda path: entry(path, "node_features", (second_of(path), 2), np.nan), r"_features\[\d\] of sequence 1"),
    "label": (lambda path: entry(path, "labels", second_of(path), 3), r"labels\[\d\] of sequence 1 is 3, wan.* 0 to 2"),
    "negative": (lambda path: entry(path, "labels", 0, -1), r"labels\[0\] of sequence 0 is -1"),
    "weight": (lambda path: entry(path, "weights", 2, 0.0), r"weights\[2\] is 0\.0, wanted positive"),
    "length": (lambda path: entry(path, "lengths", 0, 9), "lengths add up to"),
    "empty": (lambda path: entry(path, "lengths", 0, 0), r"lengths\[0\] is 0"),
    "no labels": (lambda path: damaged(path, labels=None), "it has no array labels"),
    "other": (lambda path: damaged(path, edges=np.zeros(3)), "it has the array edges, which means nothing"),
    "shape": (lambda path: damaged(path, node_features=np.zeros((3, 4))), r"node_features has shape \(3, 4\)"),
    "floats": (lambda path: damaged(path, n_labels=np.array(2.0)), "n_labels is no integer"),
    "few": (lambda path: damaged(path, n_labels=np.array(4)), "n_labels = 4, wanted 3 as in"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_file_is_said_in_a_sentence_that_names_it_and_the_sequence(fault: str, data: Data) -> None:
    damage, said = FAULTS[fault]
    damage(path := data.folder / "2.npz")
    with pytest.raises(ValueError, match=rf"^{path} .*{said}"):
        cs.solve(FIELD.from_files([data.folder / f"{k}.npz" for k in range(len(SIZES))], C=1.0), executor=Inline())


def test_sparse_features_are_checked_too(tmp_path: Path) -> None:
    Data(tmp_path, sparse=True)
    path = tmp_path / "2.npz"
    entry(path, "values", 0, np.inf)
    with pytest.raises(ValueError, match=rf"^{path} .*the CSR matrix\[\d+\] of sequence \d is inf"):
        FIELD.from_files(tmp_path, C=1.0).expectation(np.zeros(21))
    entry(path, "indptr", -1, 0)
    with pytest.raises(ValueError, match=rf"^{path} .*its index pointers do not rise"):
        FIELD.from_files(tmp_path, C=1.0).expectation(np.zeros(21))
    Data(tmp_path, sparse=True)
    entry(path, "indices", 0, 9)
    with pytest.raises(ValueError, match=rf"^{path} .*the CSR matrix is no valid sparse matrix"):
        FIELD.from_files(tmp_path, C=1.0).expectation(np.zeros(21))


@pytest.mark.parametrize("place", ["here", "processes"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [("truncated", "is no whole archive"), ("missing", "No such file"), ("weight", "it has changed since the problem")],
)
def test_a_file_damaged_in_mid_run_ends_it_with_a_sentence_and_leaves_the_checkpoint(
    fault: str, said: str, place: str, data: Data
) -> None:
    problem = FIELD.from_files(data.folder, memory=0, C=1.0)
    path, kept = data.folder / "2.npz", (data.folder / "2.npz").read_bytes()

    def callback(iterate: Any, trace: Any) -> None:
        if len(trace) == 3:
            FAULTS[fault][0](path)

    where = ProcessPoolExecutor(2, mp_context=get_context("fork")) if place == "processes" else nullcontext()
    with where as executor, pytest.raises(ValueError, match=rf"^{path} .*{said}"):
        cs.solve(problem, executor=executor, callback=callback, checkpoint=data.folder / "run.npz", every=1e-9)
    path.write_bytes(kept)
    (data.folder / "run.npz").rename(saved := data.folder.parent / "run.npz")
    assert cs.solve(problem, start=cs.Solution.load(saved, problem)).status is cs.Status.OPTIMAL


def test_arguments_that_make_no_sense_are_refused(data: Data) -> None:
    refused: Any = (
        (FIELD, {}, "give no penalty, wanted one"),
        (HMM, {"n_states": 0}, "n_states is 0"),
        (MARGIN, {"eta": 0.0}, "eta is 0"),
        (MARGIN, {"eta": 1.0, "loss": "zero"}, "loss is 'zero'"),
        (RISK, {"loss": "hinge", "lam": 1.0}, "loss is 'hinge', wanted"),
        (RISK, {"loss": "binary", "lam": 1.0}, "the files have n_labels = 3, wanted 2"),
        (RISK, {"loss": "ordinal", "lam": 1.0}, "thresholds"),
        (RISK, {"loss": "multiclass", "lam": 0.0}, "lam is 0"),
        (SVM, {}, "the scale needs exactly one"),
        (FIELD, {"C": 1.0, "memory": -1}, "memory is -1, wanted a whole number of at least 0"),
    )
    for kind, given, said in refused:
        with pytest.raises(ValueError, match=said):
            kind.from_files(data.folder, **given)
    for paths, said in (
        ([], "paths is empty"), (3, "paths is 3, wanted a list of paths"), ([3], r"paths\[0\] is 3, wanted the path"),
        (data.folder / "none", "wanted a list of paths of files, or one folder that holds files"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            FIELD.from_files(paths, C=1.0)


@pytest.mark.parametrize("kind", [FIELD, SVM])
def test_what_would_need_all_examples_here_is_refused_in_one_sentence(kind: Any, data: Data) -> None:
    problem = kind.from_files(data.folder, C=1.0)
    solvers: list[Any] = [] if kind is FIELD else [cs.solvers.OneSlack(), cs.solvers.Mira()]
    runs: list[Any] = [partial(cs.solve, problem, solver) for solver in solvers]
    for refused in (*runs, lambda: problem.predict(problem.trivial()[0])):
        with pytest.raises(ValueError, match=r"the examples lie in files, and .* would need all of them here"):
            refused()
    assert [len(y) for y in problem.predict(problem.trivial()[0], data.x)] == [len(y) for y in data.y]
