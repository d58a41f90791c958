"""Each mechanism of the solvers of structural SVMs, switched off on generated chains and images."""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.ablation import Mechanism, Study, numbers, options, seeds
from benchmarks.defaults import chains, images
from convexstruct import datasets
from convexstruct.core import tempering
from convexstruct.core.iterate import Iterate
from convexstruct.datasets.example_files import write_chains
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
from convexstruct.families.structured_svm.solvers.column_generation import (
    blocks,
    restricted_master,
)
from convexstruct.families.structured_svm.solvers.column_generation.pools import LabellingPools

#: More than any count, size or ratio: a limit of this size has no effect.
NEVER = 10**9


def _filed(n: int, files: int, seed: int) -> StructuredSVM:
    """Chains of 12 nodes, 8 labels and 30 features in files, which are read once."""
    folder = tempfile.TemporaryDirectory()
    write_chains(Path(folder.name), files, n, seed, length=12, n_labels=8, n_features=30)
    problem: StructuredSVM = StructuredSVM.from_files(folder.name, lam=1e-2)
    weakref.finalize(problem, folder.cleanup)
    return problem


def _stamped(n: int, length: int, labels: int, features: int, seed: int) -> StructuredSVM:
    """Chains with a time stamp as the last feature."""
    data = datasets.random_chains(n, length, labels, features, seed=seed)
    x = data.node_features.copy()
    x[:, -1] = 1.7e9 + 60.0 * x[:, -1]
    return StructuredSVM.read(np.split(x, data.node_start[1:-1]), data.labels_each, labels, C=1.0)


def _text(sentences: int, words: int, tags: int, seed: int, C: float = 1.0, **given: Any) -> StructuredSVM:
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
    return StructuredSVM.read(x, list(labels), tags, C=C, **given)


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


def _no_variances(features: Any, _weight: Any) -> Any:
    return np.zeros(features.dimension)


POOL_QP = (
    Mechanism("Mehrotra's corrector", patches={"restricted_master:_Newton.corrected": _boundary}),
    Mechanism("system in the columns (gram)", patches={"pools:LabellingPools.columns": _by_parameters}),
    *numbers("restricted_master", SPREAD=(0.01, 0.5, 1.0)),
    *numbers("pools", DENSE_SHARE=(2.0,)),
)
#: SAMPLES are the bounds of what SAMPLED makes of the nodes.
TEMPERING = (
    *options(stages=(0,)),
    *numbers("column_generation", SWITCHES=((1e9,) * 3, (1e-9,) * 3, (3e-4,) * 3), SAMPLES=((0, 0), (8, 8))),
    *numbers("column_generation", INNER_SHARE=(1e-9,), FEW_NODES=(0,)),
    *numbers("core.tempering", POOR_SHARE=(NEVER,), UNJUDGED_STAGES=(1,), TEMPERATURE=(1.0,), SHRINK=(0.5,)),
)
FILED = numbers("core.tempering", FAST_SHRINK=(tempering.SHRINK,), FAST_STEPS=(20,), SAMPLE_GAP=(1e-3, 10.0))
#: What serves features of different sizes.
SIZES = (
    Mechanism("L-BFGS in scaled weights", patches={"structured_svm.problem:uniform_variances": _no_variances}),
    *numbers("feature_sizes", EVEN_RATIO=(math.inf,)),
    *numbers("pools", LARGE=(20.0, 1e4, math.inf)),
    *numbers("restricted_master", LEAST_LEFT=(0.1, 0.9), FALL=(0.999,)),
)
BOTH = (*TEMPERING, *POOL_QP)
DEAR = (
    *numbers("core.tempering", POOR_SHARE=(NEVER,), LONGEST_STAGE=(1,)),
    *numbers("column_generation", CHEAP_WORK=(0.0, 1e99), CHEAP_COLUMNS=(1,)),
)
LONG, TINY = numbers("column_generation", LONG=(NEVER,)), numbers("column_generation", TINY_NODES=(0,))
FEW = numbers("column_generation", FEW_WEIGHTS=(0,))
CUTS = numbers("minimum_cut", GRADIENT_FROM=(NEVER,))
ONE_SLACK = (*options(cache=(0,), forget=(NEVER,)), *numbers("one_slack", CACHED_SHARE=(0.0,), PATIENCE=(1,)))
FRANK_WOLFE, N_SLACK = options(block=(1,), average=(False,)), options(block=(1,), inner=(0.0,))
POOLED_BLOCKS = (
    *numbers("column_generation.blocks", CONJUGATE_STEPS=(0, 60), BATCH=(4, 128), INNER_SHARE=(0.0,), MOST_STEPS=(1,)),
    *numbers("column_generation.blocks", POOL_SHARE=(-1.0, 2.0)),
    Mechanism("labellings of the evaluation (seen)", patches={"column_generation.blocks:Ascent.decode": _own_only}),
)
#: Where BLOCK_ROUNDS and STEP_WORK let exact pools take over, and where they hand over.
TAKEN_OVER = numbers("column_generation", BLOCK_ROUNDS=(40,))
HANDED_OVER = numbers("column_generation", GROWN_WORK=(1e99,))
COORDINATES = (*options(sweeps=(1,)), *numbers("dual_coordinate_ascent", INNER_SHARE=(0.0,)))
GAP = numbers("solvers.excessive_gap", FIRST_GUESS=(1.0,), GUESS_FALL=(1.0,))
RELAXED = (
    *numbers("relaxed_margin", TEMPERATURE=(0.25, 1.0), LEAP=(0.7,), SHRINK=(0.3,), STEPS=(20,), MEMORY=(10,)),
    *numbers("relaxed_margin", STAGES=(9,)),
)
WIDE_SLACK = partial(_text, 15, 8000, 6, 1, 100.0, scaling="slack")
CUT: dict[str, Any] = {"associative": True, "inference": "minimum_cut", "C_mean": 1.0}

STUDIES = [
    Study("svm, chains", seeds(chains, 60, 20, 8, 30), ColumnGeneration(), 1e-6, BOTH),
    Study("svm, from files", seeds(_filed, 20_000, 8, n=1), ColumnGeneration(), 1e-3, FILED),
    Study("svm, many weights", seeds(chains, 40, 10, 6, 60, n=2), ColumnGeneration(), 1e-6, BOTH),
    Study("svm, strong", seeds(chains, 40, 10, 5, 20, beta=1e-3), ColumnGeneration(), 1e-6, BOTH),
    Study("svm, slack scaling", seeds(chains, 40, 8, 4, 15, scaling="slack"), ColumnGeneration(), 1e-6, BOTH),
    Study("svm, dear pools", seeds(chains, 80, 20, 60, 30, n=1), ColumnGeneration(), 1e-3, DEAR),
    Study("svm, long chains", seeds(chains, 3, 300, 5, 20, n=2), ColumnGeneration(), 1e-3, LONG),
    Study("svm, tiny", seeds(chains, 5, 5, 4, 30), ColumnGeneration(), 1e-6, TINY),
    Study("svm, two labels", seeds(chains, 300, 10, 2, 30, n=2), ColumnGeneration(), 1e-6, FEW),
    Study("svm, few weights, strong", seeds(chains, 400, 10, 4, 5, n=2, beta=1e-2), ColumnGeneration(), 1e-6, FEW),
    Study("svm, cuts", seeds(images, 1, 300, n=1, **CUT), ColumnGeneration(), 1e-6, CUTS),
    Study("svm, cuts, small", seeds(images, 20, 40, n=1, **CUT), ColumnGeneration(), 1e-6, CUTS),
    Study("svm, one slack", seeds(chains, 40, 8, 4, 15), OneSlack(), 1e-4, ONE_SLACK),
    Study("svm, n slack", seeds(chains, 40, 8, 4, 15), NSlack(), 1e-6, (*N_SLACK, *POOL_QP)),
    Study("svm, more weights than columns", seeds(chains, 15, 5, 3, 400), NSlack(), 1e-6, POOL_QP),
    Study("svm, relaxed", seeds(images, 3, 6, n=2, inference="relaxed", C_mean=1.0), RelaxedMargin(), 1e-4, RELAXED),
    Study("svm, block Frank-Wolfe", seeds(chains, 40, 8, 4, 15, n=2), BlockFrankWolfe(), 1e-2, FRANK_WOLFE),
    Study("svm, pooled blocks", seeds(_text, 100, 1000, 8, n=2), Blocks(), 3e-3, POOLED_BLOCKS),
    Study("svm, many labels", seeds(chains, 40, 8, 40, 10, n=1), ColumnGeneration(), 1e-6, HANDED_OVER),
    Study("svm, a time stamp", seeds(_stamped, 20, 5, 30, 5, n=2), ColumnGeneration(), 1e-6, SIZES),
    Study("svm, wide text", [partial(_text, 15, 8000, 6, 2, 200.0)], ColumnGeneration(), 1e-6, TAKEN_OVER),
    Study("svm, wide text, slack scaling", [WIDE_SLACK], ColumnGeneration(), 1e-4, TAKEN_OVER),
    Study("svm, coordinates", seeds(chains, 30, 6, 3, 10, n=2), DualCoordinateAscent(), 1e-3, COORDINATES),
    Study("svm, excessive gap", seeds(chains, 4, 4, 3, 5, n=2), ExcessiveGap(), 1e-1, GAP),
]
