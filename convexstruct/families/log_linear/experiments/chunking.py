"""Text chunking by a conditional random field and by what the other papers train: the CoNLL-2000 shared task (Sang and
Buchholz 2000), with the usual features (F. Sha, F. Pereira, "Shallow parsing with conditional random fields", NAACL
2003).

Features of a position: the words and tags at distance 2 at most, pairs of neighbouring words and tags, and triples of
tags; kept are those that occur often enough in the training part. There is one table of transitions. The score is F1 of
chunks: a chunk is right where its kind, first and last position are. `benchmarks/log_linear.py` has the times of
python-crfsuite on the same features and objective.

On the same features and labels: the max-margin Markov network (M3N), 1/2 |w|^2 + C sum_i H_i with Hamming's loss, by
the default solver within a time limit; and the averaged perceptron and MIRA, which minimise nothing. C is chosen by F1
on the last fifth of the training sentences, after training on the others, whose features alone are counted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from sys import intern
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, listed, timed
from convexstruct.core.solution import Solution
from convexstruct.datasets.real.conll2000 import CHUNKS, Sentences, conll2000
from convexstruct.entities import entity_f1
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.structured_svm import Mira, Perceptron, StructuredSVM
from convexstruct.plots import LOWER, bounds, panels
from convexstruct.tolerances import LOW

NAME = "chunking"
PAPER = "paper 1, conditional random fields, on CoNLL-2000 (E. Tjong Kim Sang and S. Buchholz)"
TITLE = "Text chunking: F1 of a conditional random field, an M3N, perceptron and MIRA"
PUBLISHED = {"F1, Sha and Pereira 2003 (noun phrases)": 0.9438, "F1, best of the shared task, all kinds": 0.9348}
COLUMNS = ("trained by", "sentences", "features", "weights", "objective", "lower bound", "gap", "seconds", "F1")

#: Weight of lam/2 |theta|^2, and the gap to which the objective is solved.
LAM, GAP = 1.0, 2e-8
#: Sentences for training and for testing, and least occurrences of a feature: full, and quick.
SIZES, QUICK_SIZES = (8936, 2012, 4), (200, 200, 2)
#: C of the M3N to choose from, and the seconds of each of its solves, of the perceptron and of MIRA: full, and quick.
MARGIN_C, MARGIN_SECONDS = (0.03, 0.1, 0.3, 1.0), 120.0
QUICK_MARGIN_C, QUICK_MARGIN_SECONDS = (0.1, 1.0), 5.0
#: Passes of perceptron and MIRA, and sentences that the perceptron decodes at the same w.
PASSES, DECODED = 5, 8
#: Distances of words and tags, and where pairs and triples begin.
WINDOW, PAIRS, TRIPLES = (-2, -1, 0, 1, 2), (-2, -1, 0, 1), (-2, -1, 0)
Rows = list[list[str]]


def features(sentence: Sequence[Any]) -> Rows:
    """The names of the features that each position of a sentence has; tokens have ``word`` and ``tag``."""
    n, rows = len(sentence), []
    for t in range(n):
        row = ["bias"]
        inside = [k for k in WINDOW if 0 <= t + k < n]
        row += [f"w[{k}]={sentence[t + k].word}" for k in inside] + [f"t[{k}]={sentence[t + k].tag}" for k in inside]
        for k in PAIRS:
            if 0 <= t + k < n - 1:
                first, second = sentence[t + k], sentence[t + k + 1]
                row.append(f"tt[{k}]={first.tag}|{second.tag}")
                if k in (-1, 0):
                    row.append(f"ww[{k}]={first.word}|{second.word}")
        row += [
            f"ttt[{k}]=" + "|".join(token.tag for token in sentence[t + k : t + k + 3])
            for k in TRIPLES
            if 0 <= t + k < n - 2
        ]
        rows.append([intern(name) for name in row])  # a name comes twelve times on average
    return rows


def named(sentences: Sentences) -> Rows:
    """The features of all positions, sentence after sentence."""
    return [row for i in range(sentences.n_sentences) for row in features(sentences.sentence(i))]


def often(rows: Rows, least: int) -> dict[str, int]:
    """A column for each feature that occurs at least ``least`` times."""
    counted = Counter(name for row in rows for name in row)
    return {name: at for at, name in enumerate(sorted(name for name, n in counted.items() if n >= least))}


def table(rows: Rows, columns: Mapping[str, int]) -> sp.csr_array:
    """Indicators of the features that have a column; (P, F)."""
    kept = [[columns[name] for name in row if name in columns] for row in rows]
    ends = np.cumsum([0, *map(len, kept)], dtype=np.int32)
    places = np.fromiter((at for row in kept for at in row), np.int32, ends[-1])
    return sp.csr_array((np.ones(len(places)), places, ends), shape=(len(rows), len(columns)))


def f1(guessed: Sequence[Labels], right: Sequence[Labels]) -> float:
    """F1 of the chunks, as the shared task's script counts them."""
    tags = np.array(CHUNKS)
    return entity_f1([tags[one] for one in right], [tags[one] for one in guessed])


class Data(NamedTuple):
    """rows, labels : of the training part, by position and by sentence. used : the chunk tags that occur in it."""

    rows: Rows
    columns: dict[str, int]
    labels: list[Labels]
    used: Labels
    test: Sentences

    @classmethod
    def of(cls, train: Sentences, test: Sentences, least: int) -> Data:
        rows = named(train)
        used, labels = np.unique(train.labels, return_inverse=True)
        return cls(rows, often(rows, least), np.split(labels, train.sentence_start[1:-1]), used, test)

    @property
    def problem(self) -> ConditionalRandomField:
        return ConditionalRandomField.read(table(self.rows, self.columns), self.labels, len(self.used), beta=LAM)

    def margin(self, c: float) -> StructuredSVM:
        """The M3N, 1/2 |w|^2 + c sum_i H_i."""
        return StructuredSVM.read(table(self.rows, self.columns), self.labels, len(self.used), C=c)


def score(data: Data, problem: ConditionalRandomField | StructuredSVM, solution: Solution) -> float:
    """F1 on the test part."""
    start = data.test.sentence_start
    x = table(named(data.test), data.columns)
    examples = [x[low:high] for low, high in pairwise(start)]
    guessed = [data.used[labels] for labels in problem.predict(solution.point, examples)]
    return f1(guessed, np.split(data.test.labels, start[1:-1]))


def f1_at(train: Sentences, least: int, seconds: float, c: float) -> float:
    """F1 on the last fifth of the sentences, after ``seconds`` of training on the others."""
    n = train.n_sentences - train.n_sentences // 5
    data = Data.of(train.between(0, n), train.between(n), least)
    problem = data.margin(c)
    return score(data, problem, solve(problem, tol=LOW, time_limit=seconds))


def run(sheet: Sheet) -> None:
    """Train on one part, score on the other. Nothing is random; the seed changes nothing."""
    n_train, n_test, least = sheet.pick(SIZES, QUICK_SIZES)
    values, limit = sheet.pick((MARGIN_C, MARGIN_SECONDS), (QUICK_MARGIN_C, QUICK_MARGIN_SECONDS))
    sheet.total = 5 + len(values)
    sheet.step("features")
    train = conll2000("train").between(0, n_train)
    data = Data.of(train, conll2000("test").between(0, n_test), least)
    problem = data.problem
    sizes = [problem.n_examples, len(data.columns), problem.dimension]

    def row(name: str, posed: ConditionalRandomField | StructuredSVM, bounded: bool = True, **options: Any) -> Solution:
        """Train by ``options`` of `solve`; bounded : whether an objective is minimised."""
        found, seconds = timed(solve, posed, **options)
        ends = (found.primal, found.lower_bound, found.gap) if bounded else (None, None, None)
        sheet.add(name, *sizes, *ends, seconds, score(data, posed, found))
        return found

    sheet.step("training")
    field = row("CRF, L-BFGS", problem, tol=GAP)
    c, tried = sheet.choose(values, partial(f1_at, train, least, limit), "C of the M3N: {:g}".format, largest=True)
    sheet.step("M3N")
    margin = data.margin(c)
    widest = row(f"M3N, C = {c:g}", margin, tol=LOW, time_limit=limit)
    for name, learner in (("perceptron", Perceptron(PASSES, block=DECODED)), ("MIRA", Mira(passes=PASSES))):
        sheet.step(name)
        row(f"{name}, averaged", margin, bounded=False, solver=learner, time_limit=limit)
    sheet.notes += [
        f"M3N: 1/2 |w|^2 + C sum_i H_i, Hamming's loss; {widest.solver}: {widest.status.name} at a gap of "
        f"{widest.gap:.0e} (wanted {LOW.gap:g}) with a limit of {limit:g} s, so that its row depends on the machine. C "
        f"by F1 on the last fifth of the training sentences, in as many seconds each: {listed(tried, '{:.4f}')}. "
        f"Perceptron and MIRA (C = {Mira().C:g}) take {PASSES} passes, or as many as that limit leaves, and minimise "
        f"nothing; the perceptron decodes {DECODED} sentences at the same w.",
        f"CRF: lam/2 |theta|^2 with lam = {LAM:g}; features that occur {least} times at least; seconds are "
        "the processor's, a limit the clock's.",
    ]
    sheet.left_out(f"the first {n_train} sentences of the training and {n_test} of the test part.")
    figure, (left, right) = panels(2, size=(10.0, 4.0))
    above = np.maximum(np.array(field.trace.primal) - field.lower_bound, 1e-12)
    left.plot(field.trace.seconds, above, color=LOWER)
    left.set(yscale="log", xlabel="seconds", ylabel="objective less the certified lower bound (nats)", title="CRF")
    bounds(widest, right).set_title("M3N")
    sheet.figures["convergence"] = figure
