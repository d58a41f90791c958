"""Files of sequences that the writers make, as those who read them find them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.datasets.__main__ import main
from convexstruct.datasets.example_files import write_examples
from convexstruct.features.example_files import ExampleFile
from convexstruct.features.graphs.filed import FiledFeatures

TEXT = "the DT O\ncat NN B\n\nsat VB O\n\non IN O\nthe DT O\nmat NN B\n"


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_what_is_written_is_read_back(kind: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = [rng.integers(0, 2, (n, 4)).astype(float) for n in (3, 1, 2)]
    path = write_examples(tmp_path / "a.npz", list(map(kind, x)), [[0, 1, 2], [2], [1, 1]], 5, weights=[1, 2, 3])
    features, weights = ExampleFile.of(str(path), FiledFeatures).read()
    dense = features.node_features.toarray() if sp.issparse(features.node_features) else features.node_features
    assert sp.issparse(features.node_features) == (kind is sp.csr_array)
    np.testing.assert_array_equal(dense, np.concatenate(x))
    assert (features.lengths.tolist(), features.truth.tolist(), features.n_labels) == ([3, 1, 2], [0, 1, 2, 2, 1, 1], 5)
    assert features.edges.tolist() == [[0, 1], [1, 2], [4, 5]]
    assert weights.tolist() == [1, 2, 3]


def test_generated_chains_have_the_same_planted_weights_in_all_files(tmp_path: Path) -> None:
    sizes = ["--examples", "25", "--length", "4", "--labels", "3", "--features", "2", "--seed", "7"]
    assert main(["chains", str(tmp_path / "new"), "--files", "3", *sizes]) == 0
    files = [ExampleFile.of(str(path), FiledFeatures) for path in sorted((tmp_path / "new").iterdir())]
    assert [file.n_examples for file in files] == [8, 8, 9]
    first, again = cs.datasets.random_chains(8, 4, 3, 2, seed=7), cs.datasets.random_chains(8, 4, 3, 2, seed=8)
    assert first.planted is not None
    same = cs.datasets.random_chains(8, 4, 3, 2, seed=8, planted=first.planted)
    np.testing.assert_array_equal(same.planted, first.planted)
    np.testing.assert_array_equal(same.node_features, again.node_features)
    for file, drawn in zip(files, (first, same)):
        features = file.read()[0]
        np.testing.assert_array_equal(features.node_features, drawn.node_features)
        np.testing.assert_array_equal(features.truth, drawn.labels)
    with pytest.raises(ValueError, match=r"planted has shape \(3,\), wanted \(15,\): node weights, then edge weights"):
        cs.datasets.random_chains(8, 4, 3, 2, planted=[1, 2, 3])


def test_symbols_are_written_with_their_states_and_read_without(tmp_path: Path) -> None:
    sizes = ["--examples", "30", "--length", "4", "--labels", "3", "--symbols", "5", "--seed", "1"]
    assert main(["hmm", str(tmp_path), "--files", "3", *sizes]) == 0
    symbols: list[Any] = []
    for path in sorted(tmp_path.iterdir()):
        with np.load(path) as file:
            assert sorted(file) == ["labels", "lengths", "n_labels", "n_symbols", "symbols"]
            symbols += list(file["symbols"].reshape(-1, 4))
            assert file["labels"].max() == 2
    here = cs.solve(cs.HiddenMarkov.read(symbols, 3, 5), max_iterations=5)
    filed = cs.solve(cs.HiddenMarkov.from_files(tmp_path, 3), max_iterations=5)
    assert (filed.primal, filed.lower_bound) == pytest.approx((here.primal, here.lower_bound), rel=1e-12)


@pytest.mark.parametrize("window", [0, 1])
def test_a_text_is_written_with_the_columns_of_tokens_and_their_neighbours(window: int, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    arguments = ["conll", str(tmp_path / "out"), str(text), "--files", "2", "--window", str(window)]
    run = subprocess.run([sys.executable, "-m", "convexstruct.datasets", *arguments], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == f"2 files in {tmp_path / 'out'}\n"
    names = json.loads((tmp_path / "out" / "names.json").read_text())
    assert names["labels"] == ["B", "O"]
    first, last = (
        ExampleFile.of(str(path), FiledFeatures).read()[0] for path in sorted((tmp_path / "out").glob("*.npz"))
    )
    assert (first.truth.tolist(), last.truth.tolist()) == ([1, 0], [1, 1, 1, 0])
    assert last.lengths.tolist() == [1, 3]

    def of(row: int) -> set[str]:
        return {names["features"][j] for j in np.flatnonzero(last.node_features.toarray()[row])}

    near = {"-1:0=on", "-1:1=IN", "+1:0=mat", "+1:1=NN"} if window else set()
    assert of(2) == {"0=the", "1=DT"} | near
    assert of(0) == {"0=sat", "1=VB"}
    problem = cs.ConditionalRandomField.from_files(tmp_path / "out", C=1.0)
    assert cs.solve(problem).status is cs.Status.OPTIMAL


def test_what_is_malformed_is_said_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["chains", str(tmp_path), "--files", "0"], "n_files is 0, wanted a whole number"),
        (["chains", str(tmp_path), "--examples", "2", "--files", "3"], "n_files is 3"),
        (["conll", str(tmp_path), str(tmp_path / "none.txt")], "No such file"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    (full := tmp_path / "full").mkdir()
    (full / "00003.npz").touch()
    assert main(["chains", str(full), "--examples", "3", "--files", "3"]) == 2
    assert "folder holds '00003.npz' already, wanted one without other files" in capsys.readouterr().err
    assert len(list(full.iterdir())) == 1
    with pytest.raises(ValueError, match="weights has shape"):
        write_examples(tmp_path / "a.npz", [np.ones((1, 1))], [[0]], 1, weights=[1, 2])
    malformed: Any = (
        ({}, "labels and symbols are not given"),
        ({"symbols": [[0, 1]], "n_symbols": 2, "labels": [[0]], "n_labels": 1}, "symbols have other lengths than lab"),
        ({"symbols": [[0, 2]], "n_symbols": 2}, r"symbols\[0\] holds 2|symbols\[0\]\[1\] is 2"),
    )
    for given, said in malformed:
        with pytest.raises(ValueError, match=said):
            write_examples(tmp_path / "a.npz", **given)
    assert not list(tmp_path.glob("*.npz"))
