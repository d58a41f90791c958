"""Quick runs of the experiments, each made once, on small data made up in place of the stored sets."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure

from convexstruct.core.experiment import Result
from convexstruct.datasets.real.conll2000 import Sentences, parse
from convexstruct.datasets.real.connect4 import Positions
from convexstruct.datasets.real.ocr_letters import N_FOLDS, Words
from convexstruct.datasets.real.protein import Proteins
from convexstruct.datasets.real.scene import N_FEATURES, SCENES, Scenes
from convexstruct.experiments import EXPERIMENTS
from convexstruct.graphs import starts


def sentences(n: int, seed: int) -> Sentences:
    """the cat sees the dog: each noun phrase is an article and a noun, or a pronoun alone."""
    rng = np.random.default_rng(seed)
    phrases = ["the DT B-NP\ncat NN I-NP", "a DT B-NP\ndog NN I-NP", "she PRP B-NP"]
    return parse("\n\n".join(f"{rng.choice(phrases)}\nsees VBZ B-VP\n{rng.choice(phrases)}\n. . O" for _ in range(n)))


def words(n_words: int, seed: int, blurred: float = 0.0, longest: int = 5) -> Words:
    """Words of a, b, c in cyclic order. Each letter has 40 pixels of its own, all 0 with probability ``blurred``."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, n_words)
    labels = np.concatenate([(rng.integers(3) + np.arange(size)) % 3 for size in sizes])
    pixels = np.zeros((len(labels), 128), dtype=np.uint8)
    for place, label in enumerate(labels):
        pixels[place, 40 * label : 40 * label + 40] = rng.random() >= blurred
    return Words(pixels, labels.astype(np.int64), starts(sizes), np.arange(n_words) % N_FOLDS)


def scenes(n: int, seed: int, dark: float = 1 / 3) -> Scenes:
    """Exactly one label an image; a feature shows it, but is 0 in the share ``dark`` of the images."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, len(SCENES), n)
    labels = np.eye(len(SCENES), dtype=np.int64)[shown]
    features = np.zeros((n, N_FEATURES))
    features[:, : len(SCENES)] = labels * (rng.random(n) >= dark)[:, None]
    return Scenes(features, labels)


def proteins(n_chains: int, seed: int, longest: int = 8) -> Proteins:
    """Chains of 3 residues at least, which determine the structure: residue = structure + 3 * noise."""
    rng = np.random.default_rng(seed)
    structures = [rng.integers(0, 3, rng.integers(3, longest + 1)) for _ in range(n_chains)]
    return Proteins([s + 3 * rng.integers(0, 6, len(s)) for s in structures], structures)


def long_proteins(*_: Any) -> Proteins:
    """111 chains of 20 to 60 residues, which determine the structure: each lasts for 4 residues."""
    rng = np.random.default_rng(0)
    structures = [np.repeat(rng.integers(0, 3, n), 4) for n in rng.integers(5, 16, size=111)]
    return Proteins([s + 3 * rng.integers(0, 6, len(s)) for s in structures], structures)


def positions(n: int, seed: int) -> Positions:
    """Squares at random, but that those of one column of the board show the value."""
    rng = np.random.default_rng(seed)
    squares, values = rng.integers(0, 3, (n, 42)), rng.integers(0, 3, n)
    squares[:, :6] = values[:, None]
    return Positions(squares, values)


def parts(maker: Any, *arguments: Any) -> Any:
    """A reader of a training and a test part."""
    return lambda part: maker(arguments[0], arguments[1] + (part == "test"), *arguments[2:])


#: The reader of proteins of the tables of paper 3.
READER = "convexstruct.families.unsupervised_margin.experiments.draws._proteins"
#: The reader of scenes.
SCENE = "convexstruct.datasets.real.scene.scene"
#: Where the run of both tables of errors is.
TABLE2 = "convexstruct.families.unsupervised_margin.experiments.table2"
#: What is replaced in an experiment's module, or by its whole name: readers of data, and sizes.
SMALL: dict[str, dict[str, Any]] = {
    "connect4": {"connect4": lambda: positions(400, 1), "N_TRAIN": 300},
    "protein-hmm": {"protein": parts(proteins, 30, 2)},
    "collapse-sdp": {"QUICK_ROUNDS": 3, "BETAS": (0.01, 100.0)},
    "proposition2": {"BETAS": (0.1,)},
    "tracking": {"QUICK": (6, 10, 0.5)},
    "general-objectives": {"protein": parts(proteins, 6, 3), "LENGTH": 6},
    "online-variant": {"SUBSETS": (1, 2), "N_EXAMPLES": 4, "LENGTH": 4, "N_STATES": 3, "QUICK_SECONDS": 0.3},
    # no limit on the M3N: what is tested of its row holds on any machine
    "chunking": {"conll2000": parts(sentences, 15, 6), "QUICK_MARGIN_SECONDS": 1e6},
    "collapse": {"QUICK_SEQUENCES": 6},
    "contrastive-divergence": {
        "PATH": (0, 1, 2), "QUICK_STEPS": 5, "QUICK_EPOCHS": 2, "QUICK_DIGIT_EPOCHS": 1, "QUICK_CHAINS": 5,
        "QUICK_TEMPERATURES": 3, "TRAINED": 100,
    },
    "pseudolikelihood": {
        "QUICK_SIZES": (50, 200), "QUICK_DRAWS": 2, "QUICK_TIES": (0.0, 4.0), "QUICK_TIED_DRAWS": 2, "QUICK_SIDE": 6,
        "QUICK_SWEEPS": 20,
    },
    "ocr": {"ocr_letters": lambda: words(100, 8, blurred=0.1), "QUICK_WORDS": 6, "QUICK_C": (0.01, 0.1)},
    # at the C of a full run the 23 labels that no word has take the M3N of three words 40 s
    "online-learners": {
        "ocr_letters": lambda: words(30, 8, blurred=0.1),
        "GRIDS": dict.fromkeys(("MIRA, best", "MIRA, two best", "SEARN", "M3N, batch"), (0.01,) * 3),
    },
    "cutting-planes": {"QUICK_EXAMPLES": 4, "QUICK_EPS": (1.0,), "QUICK_SIZES": (2, 4), "FIXED": 0.3},
    "scene-spen": {SCENE: parts(scenes, 60, 7), "QUICK_IMAGES": 40, "QUICK_ITERATIONS": 10, "TIMED": 1},
    "table1": {f"{TABLE2}.QUICK_DRAWS": 2, f"{TABLE2}.QUICK_SETS": ("SYNTH1",)},
    "table2": {READER: long_proteins, "QUICK_DRAWS": 2, "QUICK_SETS": ("SYNTH1",)},
    "table3": {READER: long_proteins},
    "gp-sequence": {"protein": parts(proteins, 12, 3), "QUICK": 8},
}  # fmt: skip


class Ran(NamedTuple):
    """What a run gave, and the steps that it told: (done, in all)."""

    result: Result
    told: list[tuple[int, int]]


#: They leave nothing out.
WHOLE = {"surrogates"}


def run(name: str, seed: int = 3, **replaced: Any) -> Ran:
    """A quick run; ``replaced`` : as in `SMALL`. It is checked for what the quick run of every experiment does."""
    told: list[tuple[int, int]] = []
    experiment = EXPERIMENTS[name]
    with pytest.MonkeyPatch.context() as patch:
        for what, value in {**SMALL.get(name, {}), **replaced}.items():
            patch.setattr(what if "." in what else f"{experiment.file.__name__}.{what}", value)
        result = experiment.run(quick=True, seed=seed, progress=lambda done, total, _: told.append((done, total)))
    assert told == [(k, len(told)) for k in range(len(told))]
    assert len(told) > 0
    assert len(result.rows) > 0
    assert json.loads(json.dumps(result.as_json(), allow_nan=False))["columns"] == list(result.columns)
    assert [note.startswith("quick: ") for note in result.notes].count(True) == (name not in WHOLE)
    assert all(isinstance(figure, Figure) and figure.axes for figure in result.figures.values())
    assert len(result.figures) > 0
    return Ran(result, told)


#: The same, once for all tests of a process.
quick = cache(run)
