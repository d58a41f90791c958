"""Each mechanism of the solvers of structural SVMs, switched off on generated chains and images."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.ablation import Mechanism, Study
from convexstruct import datasets
from convexstruct.core.iterate import Iterate
from convexstruct.families.structured_svm import (
    BlockFrankWolfe,
    ColumnGeneration,
    DualCoordinateAscent,
    ExcessiveGap,
    NSlack,
    OneSlack,
    RelaxedMargin,
    StructuredSVM,
)
from convexstruct.families.structured_svm.solvers.column_generation import blocks, restricted_master
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools

SOLVERS = "convexstruct.families.structured_svm.solvers"
FOLDER = f"{SOLVERS}.column_generation"
RULE, TEMPER, QP, POOLS, BLOCKS = (
    f"{FOLDER}.{name}" for name in ("column_generation", "tempering", "restricted_master", "pools", "blocks")
)
CUT, PAIRWISE = "convexstruct.oracles.loopy.minimum_cut", "convexstruct.oracles.loopy.pairwise"
#: More than any count, size or ratio: a limit of this size has no effect.
NEVER = 10**9


def _chains(chains: int, length: int, labels: int, features: int, instances: int = 3, **options: Any) -> Any:
    """Chains drawn from planted weights, from the seeds 1, 2, ..."""
    sizes = chains, length, labels, features
    return [functools.partial(_chain, sizes, seed, options) for seed in range(1, instances + 1)]


def _chain(sizes: tuple[int, int, int, int], seed: int, options: dict[str, Any]) -> StructuredSVM:
    chains, length, labels, features = sizes
    data = datasets.random_chains(chains, length, labels, features, seed=seed)
    return StructuredSVM.read(data.node_features, data.labels_each, data.n_labels, **({"beta": 1.0} | options))


def _images(images: int, side: int, instances: int = 3, **options: Any) -> list[Callable[[], StructuredSVM]]:
    """Noisy images of two regions, from the seeds 1, 2, ..."""
    return [functools.partial(_image, images, side, seed, options) for seed in range(1, instances + 1)]


def _cut_images(images: int, side: int) -> list[Callable[[], StructuredSVM]]:
    return _images(images, side, 1, associative=True, inference="minimum_cut")


def _image(images: int, side: int, seed: int, options: dict[str, Any]) -> StructuredSVM:
    data = datasets.noisy_images(images, side, side, seed=seed)
    return StructuredSVM.read(
        np.split(data.node_features, data.node_start[1:-1]), data.labels_each, 2, edges=data.edges_each,
        edge_features=data.edge_features_each, **({"C_mean": 1.0} | options),
    )  # fmt: skip


def _text(sentences: int, words: int, tags: int, seed: int, C: float = 1.0, **options: Any) -> StructuredSVM:
    """Sentences of 12 words drawn by Zipf's law; the columns are a constant and the words before, here and after. A
    word has one tag, in a fifth of the places any other."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, words + 1)
    drawn = rng.choice(words, (sentences, 14), p=share / share.sum())
    here = rng.integers(0, tags, words)[drawn[:, 1:-1]]
    labels = np.where(rng.random(here.shape) < 0.2, rng.integers(0, tags, here.shape), here)
    window = [drawn[:, k : k + 12].ravel() + k * words + 1 for k in range(3)]
    columns = np.stack([np.zeros_like(window[0]), *window], axis=1)
    shape = len(columns), 3 * words + 1
    x = sp.csr_array((np.ones(columns.size), columns.ravel(), 4 * np.arange(shape[0] + 1)), shape=shape)
    return StructuredSVM.read(x, list(labels), tags, C=C, **options)


@dataclass(frozen=True)
class Blocks:
    """The ascent over pools alone, whatever the size of the problem."""

    def iterate(self, problem: StructuredSVM, start: Any = None) -> Iterator[Iterate]:
        yield from blocks.ascend(blocks.Ascent(problem, np.random.default_rng(0)), np.zeros(problem.dimension), False)


def _own_only(self: Any, seen: Any, _decode: Any = blocks.Ascent.decode) -> int:
    found: int = _decode(self, None)
    return found


def _by_parameters(self: LabellingPools, _columns: Any = LabellingPools.columns) -> restricted_master.PoolColumns:
    columns: restricted_master.PoolColumns = _columns(self)
    return replace(columns, gram=None)


def _boundary(self: restricted_master._Newton) -> tuple[restricted_master._State, float]:
    """Mehrotra's first direction alone, without centring or second order."""
    first = self.direction(self.at.alpha * self.at.s, self.at.z * self.inside)
    return first, restricted_master.STEP_SHARE * self.reach(first)


POOL_QP = (
    Mechanism("Mehrotra's corrector", patches={f"{QP}:_Newton.corrected": _boundary}),
    Mechanism("system in the columns (gram)", patches={f"{POOLS}:LabellingPools.columns": _by_parameters}),
    Mechanism("start farther inside (LEAST_STEP)", patches={f"{QP}:LEAST_STEP": 0.0}),
    Mechanism("start no farther inside (LEAST_STEP)", patches={f"{QP}:LEAST_STEP": 0.3}),
    Mechanism("first slacks by the mean xi (NEAR)", patches={f"{QP}:NEAR": 0.0}),
    Mechanism("first slacks no smaller (NEAR)", patches={f"{QP}:NEAR": 3e-4}),
    Mechanism("small first slacks (NEAR)", patches={f"{QP}:NEAR": 3e-3}),
    Mechanism("first slacks below the mean xi (NEAR)", patches={f"{QP}:NEAR": 1.0}),
    Mechanism("dense columns (DENSE_SHARE)", patches={f"{POOLS}:DENSE_SHARE": 2.0}),
)
TEMPERING = (
    Mechanism("tempering (one stage)", {"switch": 1e9}),
    Mechanism("pools from switch on", {"switch": 1e-9}),
    Mechanism("ends by size (SWITCHES)", {"switch": 3e-4}),
    Mechanism("samples in the first pools", {"samples": 0}),
    Mechanism("more of them on small problems (SAMPLED, up to SAMPLES)", {"samples": 8}),
    Mechanism("early solutions (INNER_SHARE)", patches={f"{RULE}:INNER_SHARE": 1e-9}),
    Mechanism("tempering", {"stages": 0}),
    Mechanism("earlier ends of small problems (FEW_NODES)", patches={f"{RULE}:FEW_NODES": 0}),
    Mechanism("poor stages end or lengthen (POOR_SHARE)", patches={f"{TEMPER}:POOR_SHARE": NEVER}),
    Mechanism("stages without bounds (UNJUDGED_STAGES)", patches={f"{TEMPER}:UNJUDGED_STAGES": 1}),
)
DEAR = (
    Mechanism("poor stages end or lengthen (POOR_SHARE)", patches={f"{TEMPER}:POOR_SHARE": NEVER}),
    Mechanism("longer stages after poor ones (LONGEST_STAGE)", patches={f"{TEMPER}:LONGEST_STAGE": 1}),
    Mechanism("patience where pools are dear (CHEAP_WORK)", patches={f"{RULE}:CHEAP_WORK": 1e99}),
    Mechanism("pools at once where they are cheap (CHEAP_WORK)", patches={f"{RULE}:CHEAP_WORK": 0.0}),
    Mechanism("work by several labellings (CHEAP_COLUMNS)", patches={f"{RULE}:CHEAP_COLUMNS": 1}),
)
LONG = (Mechanism("late ends of few long chains (LONG)", patches={f"{RULE}:LONG": NEVER}),)
CUTS = (
    Mechanism("flow near the maximum first (GRADIENT_FROM)", patches={f"{CUT}:GRADIENT_FROM": NEVER}),
    Mechanism("loops over few labels (LOOPED_LABELS)", patches={f"{PAIRWISE}:LOOPED_LABELS": 0}),
)
ONE_SLACK = (
    Mechanism("cache", {"cache": 0}),
    Mechanism("cuts from the cache by worth (CACHED_SHARE)", patches={f"{SOLVERS}.one_slack:CACHED_SHARE": 0.0}),
    Mechanism("cuts not in use dropped", {"forget": NEVER}),
    Mechanism("end only after several cuts without rise (PATIENCE)", patches={f"{SOLVERS}.one_slack:PATIENCE": 1}),
)
N_SLACK = (
    Mechanism("all examples at once", {"block": 1}),
    Mechanism("early solutions (inner)", {"inner": 0.0}),
)
RELAXED = (Mechanism("L-BFGS (ten pairs kept)", {"memory": 10}),)
FRANK_WOLFE = (
    Mechanism("several examples a step", {"block": 1}),
    Mechanism("average", {"average": False}),
)
POOLED_BLOCKS = (
    Mechanism("conjugate gradients", patches={f"{BLOCKS}:CONJUGATE_STEPS": 0}),
    Mechanism("short conjugate gradients (CONJUGATE_STEPS)", patches={f"{BLOCKS}:CONJUGATE_STEPS": 60}),
    Mechanism("batches of many (BATCH)", patches={f"{BLOCKS}:BATCH": 4}),
    Mechanism("batches of few (BATCH)", patches={f"{BLOCKS}:BATCH": 128}),
    Mechanism("early ends of steps (INNER_SHARE)", patches={f"{BLOCKS}:INNER_SHARE": 0.0}),
    Mechanism("several steps of an example (MOST_STEPS)", patches={f"{BLOCKS}:MOST_STEPS": 1}),
    Mechanism("more cycles where pools leave a gap (POOL_SHARE)", patches={f"{BLOCKS}:POOL_SHARE": 2.0}),
    Mechanism("fewer cycles where they do not (POOL_SHARE)", patches={f"{BLOCKS}:POOL_SHARE": -1.0}),
    Mechanism("labellings of the evaluation (seen)", patches={f"{BLOCKS}:Ascent.decode": _own_only}),
)
TAKEN_OVER = (Mechanism("pools only after many rounds (BLOCK_ROUNDS)", patches={f"{RULE}:BLOCK_ROUNDS": 40}),)
HANDED_OVER = (Mechanism("ascent where columns are many (STEP_WORK)", patches={f"{RULE}:GROWN_WORK": 1e99}),)
COORDINATES = (
    Mechanism("sweeps", {"sweeps": 1}),
    Mechanism("sweeps end early (INNER_SHARE)", patches={f"{SOLVERS}.dual_coordinate_ascent:INNER_SHARE": 0.0}),
)
GAP = (
    Mechanism("small first guess of L (FIRST_GUESS)", patches={f"{SOLVERS}.excessive_gap:FIRST_GUESS": 1.0}),
    Mechanism("L falls after a success (GUESS_FALL)", patches={f"{SOLVERS}.excessive_gap:GUESS_FALL": 1.0}),
)

STUDIES = [
    Study("svm, chains", _chains(60, 20, 8, 30), ColumnGeneration(), 1e-6, (*TEMPERING, *POOL_QP)),
    Study("svm, many weights", _chains(40, 10, 6, 60, 2), ColumnGeneration(), 1e-6, (*TEMPERING, *POOL_QP)),
    Study("svm, strong", _chains(40, 10, 5, 20, beta=1e-3), ColumnGeneration(), 1e-6, (*TEMPERING, *POOL_QP)),
    Study(
        "svm, slack scaling", _chains(40, 8, 4, 15, scaling="slack"), ColumnGeneration(), 1e-6, (*TEMPERING, *POOL_QP)
    ),
    Study("svm, dear pools", _chains(80, 20, 60, 30, 1), ColumnGeneration(), 1e-3, DEAR),
    Study("svm, long chains", _chains(3, 300, 5, 20, 2), ColumnGeneration(), 1e-3, LONG),
    Study("svm, cuts", _cut_images(1, 300), ColumnGeneration(), 1e-6, CUTS),
    Study("svm, cuts, small", _cut_images(20, 40), ColumnGeneration(), 1e-6, CUTS),
    Study("svm, one slack", _chains(40, 8, 4, 15), OneSlack(), 1e-4, ONE_SLACK),
    Study("svm, n slack", _chains(40, 8, 4, 15), NSlack(), 1e-6, (*N_SLACK, *POOL_QP)),
    Study("svm, more weights than columns", _chains(15, 5, 3, 400), NSlack(), 1e-6, POOL_QP),
    Study("svm, relaxed", _images(3, 6, 2, inference="relaxed"), RelaxedMargin(), 1e-4, RELAXED),
    Study("svm, block Frank-Wolfe", _chains(40, 8, 4, 15, 2), BlockFrankWolfe(), 1e-2, FRANK_WOLFE),
    Study(
        "svm, pooled blocks",
        [functools.partial(_text, 100, 1000, 8, seed) for seed in (1, 2)],
        Blocks(),
        3e-3,
        POOLED_BLOCKS,
    ),
    Study("svm, many labels", _chains(40, 8, 40, 10, 1), ColumnGeneration(), 1e-6, HANDED_OVER),
    Study("svm, wide text", [functools.partial(_text, 15, 8000, 6, 2, 200.0)], ColumnGeneration(), 1e-6, TAKEN_OVER),
    Study(
        "svm, wide text, slack scaling",
        [functools.partial(_text, 15, 8000, 6, 1, 100.0, scaling="slack")],
        ColumnGeneration(),
        1e-4,
        TAKEN_OVER,
    ),
    Study("svm, coordinates", _chains(30, 6, 3, 10, 2), DualCoordinateAscent(), 1e-3, COORDINATES),
    Study("svm, excessive gap", _chains(4, 4, 3, 5, 2), ExcessiveGap(), 1e-1, GAP),
]
