"""Seeded generators and loaders of data sets; they return plain arrays and graphs.

Generated: `ring`, `hidden_markov`, `hadamard`, `dense_margins`, `sparse_margins`, `random_chains`, `random_trees`,
`random_graphs`, `noisy_images`. Real, read from the data root and checked: `protein`, `connect4`, `a9a`, `ocr_letters`,
`scene`, `snakes`, `conll2000`; `available` says which are here, `fetch` downloads those with a published address.
Of one's own: `read_conll` reads a file of labelled sentences in columns; `read_uai` and `write_uai` the UAI format of
graphical models. `write_examples` writes files that `from_files` of problems reads, as does ``python -m
convexstruct.datasets``, from texts and generated chains.
"""

from functools import partial
from typing import TYPE_CHECKING

from convexstruct.datasets.conll import TaggedSentences, read_conll
from convexstruct.datasets.example_files import write_examples
from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.datasets.generated.hidden_markov import SYNTHETIC, HiddenMarkovChains, hidden_markov
from convexstruct.datasets.generated.margins import BinarySet, dense_margins, sparse_margins
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, Ring, ring
from convexstruct.datasets.generated.structured import noisy_images, random_chains, random_graphs, random_trees
from convexstruct.datasets.labelled import LabelledGraphs, chain_edges, grid_edges
from convexstruct.datasets.real.a9a import Incomes, a9a
from convexstruct.datasets.real.conll2000 import Sentences, Token, conll2000
from convexstruct.datasets.real.connect4 import Positions, connect4
from convexstruct.datasets.real.ocr_letters import Words, ocr_letters
from convexstruct.datasets.real.protein import Proteins, protein
from convexstruct.datasets.real.scene import Scenes, scene
from convexstruct.datasets.real.snakes import Snakes, snakes
from convexstruct.datasets.real.sources import SOURCES, available, data_root, fetch
from convexstruct.datasets.uai import ScoredFactors, read_uai, write_uai
from convexstruct.validation.arguments import no_attribute

__all__ = [
    "EASY",
    "HARD",
    "SOURCES",
    "SYNTHETIC",
    "BinarySet",
    "HiddenMarkovChains",
    "Incomes",
    "LabelledGraphs",
    "Noise",
    "Positions",
    "Proteins",
    "Ring",
    "Scenes",
    "ScoredFactors",
    "Sentences",
    "Snakes",
    "TaggedSentences",
    "Token",
    "Words",
    "a9a",
    "available",
    "chain_edges",
    "conll2000",
    "connect4",
    "data_root",
    "dense_margins",
    "fetch",
    "grid_edges",
    "hadamard",
    "hidden_markov",
    "noisy_images",
    "ocr_letters",
    "protein",
    "random_chains",
    "random_graphs",
    "random_trees",
    "read_conll",
    "read_uai",
    "ring",
    "scene",
    "snakes",
    "sparse_margins",
    "write_examples",
    "write_uai",
]

if not TYPE_CHECKING:  # a type checker knows the names
    __getattr__ = partial(no_attribute, __name__, __all__)
