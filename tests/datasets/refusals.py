"""What the data sets refuse: arguments of the generated, arrays and texts of the real ones."""

from __future__ import annotations

import numpy as np

from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.datasets.generated.hidden_markov import hidden_markov
from convexstruct.datasets.generated.margins import sparse_margins
from convexstruct.datasets.generated.structured import noisy_images, random_graphs
from convexstruct.datasets.real import conll2000, connect4, ocr_letters, protein, scene, snakes, svmlight
from tests.refusals import Door

SCENES = {"X_test": np.full((3, 294), 0.5), "y_test": np.eye(6, dtype=np.uint8)[[0, 5, 2]]}
SNAKES = {
    "shape_train": np.array([[2, 3], [1, 1]]),
    "X_train": np.array(list(snakes.COLOURS.values()), dtype=np.uint8)[[2, 3, 0, 0, 4, 0, 0]],
    "Y_train": np.array([1, 2, 0, 0, 3, 0, 0], dtype=np.uint8),
}
WORDS = {
    "pixels": np.zeros((6, 128), dtype=np.uint8),
    "label": np.array([2, 0, 1, 0, 25, 25], dtype=np.uint8),
    "word_start": np.array([0, 3, 4, 6], dtype=np.int32),
    "fold": np.array([0, 9, 0], dtype=np.uint8),
}
BLANK = ",".join(["b"] * 40)

REFUSALS = (
    Door(
        sparse_margins,
        {"n": 5, "d": 3},
        [
            ({"n": 0}, "n is 0"),
            ({"flips": 0.5}, "flips"),
            ({"positives": 1.0}, "positives"),
            ({"words": 0}, "words"),
        ],
    ),
    Door(
        random_graphs,
        {"n_graphs": 2, "n_nodes": 3, "n_labels": 2, "n_features": 4},
        [
            ({"n_nodes": (3, 2)}, "n_nodes is"),
            ({"n_nodes": 0}, "n_nodes is 0"),
            ({"active": 5}, "active is 5, wanted at most n_features = 4"),
            ({"extra": -1}, "extra is -1"),
            ({"noise": -1.0}, "noise is"),
        ],
    ),
    Door(noisy_images, {"height": 2, "width": 2, "n_images": 1}, [({"smoothness": -1}, "smoothness is")]),
    Door(hidden_markov, {"move": 0.5}, [({"move": 1.5}, "move is 1.5")]),
    Door(
        hadamard,
        {"d": 4},
        [({"d": d}, ("d is ", ", wanted a ")) for d in (0, -4, 3, 12, 2.0, True)],
    ),
    Door(
        lambda **arrays: scene.from_arrays(arrays, "test"),
        SCENES,
        [
            ({"X_test": np.zeros((3, 293))}, "X_test"),
            ({"X_test": np.full((3, 294), 1.1)}, "X_test"),
            ({"y_test": np.zeros((2, 6))}, "y_test"),
            ({"y_test": np.full((3, 6), 2)}, "y_test"),
        ],
        name="scene",
    ),
    Door(
        lambda **arrays: snakes.from_arrays(arrays, "train"),
        SNAKES,
        [
            ({"shape_train": np.array([[2, 3], [0, 1]])}, "shape_train"),
            ({"shape_train": np.array([[2, 3], [1, 2]])}, "X_train has shape (7, 3), wanted (8, 3)"),
            ({"X_train": np.zeros((7, 3), dtype=np.uint8)}, "five colours of the set, got [0, 0, 0]"),
            ({"Y_train": np.full(7, 11)}, "Y_train"),
        ],
        name="snakes",
        names=("five colours",),
    ),
    Door(
        lambda **arrays: ocr_letters.from_arrays(arrays),
        WORDS,
        [
            ({"pixels": np.full((6, 128), 2, dtype=np.uint8)}, "pixels[0, 0] is 2, wanted a whole number from 0 to 1"),
            ({"pixels": np.zeros((6, 64), dtype=np.uint8)}, "pixels has shape (6, 64), wanted (letters, 128)"),
            ({"label": np.full(6, 26, dtype=np.uint8)}, "label[0] is 26"),
            ({"word_start": np.array([0, 3, 3, 6], dtype=np.uint8)}, "word_start must rise"),
            ({"word_start": np.array([0, 3, 5], dtype=np.int32)}, "word_start must rise"),
            ({"fold": np.array([0, 10, 0])}, "fold[1] is 10"),
        ],
        name="ocr_letters",
    ),
    Door(
        lambda text, n_features=3: svmlight.parse(text, n_features),
        {"text": "1 1:1"},
        [
            *(
                ({"text": f"1 1:1\n{line}\n"}, "line 2 of the svmlight text is")
                for line in ["1:1", "1 2", "1 a:1", "1 1::1", "1 qid:3 1:1", "1 1:nan", "1 -1:1", "1 1.5:1"]
            ),
            ({"text": "\n# nothing\n"}, "holds no row"),
            *(
                ({"text": f"1 3:1\n\n{line}\n1 1:1"}, "line 3 of the svmlight text must hold finite numbers")
                for line in ["1 0:1", "1 4:1", "1 2:1 2:1", "1 2:1 1:1", "1 1:1e999", "1e999"]
            ),
        ],
        name="svmlight",
    ),
    Door(
        connect4.parse,
        {"text": f"x,o,{BLANK},win"},
        [
            *(
                ({"text": f"{line}\n"}, "line 1 of the Connect-4 text")
                for line in [f"{BLANK},win", f"x,q,{BLANK},win", f"x,o,{BLANK},tie", f"x,o,b,{BLANK},win"]
            ),
            ({"text": "\n"}, "holds no position"),
        ],
        name="connect4",
    ),
    Door(
        protein.parse,
        {"text": "A _"},
        [
            *(
                ({"text": f"A _\n{line}\n"}, "line 2 of the protein text")
                for line in ["B _", "A x", "A", "A _ _", "AA _", "A __"]
            ),
            *(({"text": line}, "holds no chain") for line in ["", "# only a comment\n", "<>\nend\n"]),
        ],
        name="protein",
    ),
    Door(
        conll2000.parse,
        {"text": "a b O"},
        [
            *(
                ({"text": f"a b O\n\n{line}\n"}, "line 3 of the chunking text is")
                for line in ["word NN", "word NN B-NP more", "word NN B-XX", "word NN b-np"]
            ),
            *(({"text": line}, "holds no sentence") for line in ["", "\n \n"]),
        ],
        name="conll2000",
    ),
)
