"""Other packages on our cases, as they are: what LinearSVC, ReHLine, dlib and CRFsuite reach beside the stored optima.

    python benchmarks/peers.py [--only PACKAGE ...] [--limit SECONDS] [--json FILE]

Each package is a solver like anyone's own: `verify` runs it on each small case that it can state, in a process of its
own, and judges its point. "gap" is relative to the stored lower bound; seconds are of the call. LinearSVC and ReHLine
minimise 1/2 |w|^2 + C sum hinge, dlib 1/2 |w|^2 + C/N sum hinge, CRFsuite -log-likelihood + c1 |theta|_1 + c2
|theta|^2. C is the case's. All stop by their own rules, apart from the number of iterations, which none reaches:
LinearSVC and ReHLine at tol = 1e-4, dlib at epsilon = 1e-3, CRFsuite at |gradient| <= 1e-5 |theta| or ten rounds that
gain less than 1e-5, relative. Those are their defaults. Ours are the stored bounds, at the gap of each case.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.structured_svm import OracleSVM, StructuredSVM
from convexstruct.validation.arguments import number
from convexstruct.verification import cases_for, verify
from convexstruct.verification.outcome import finite

#: The most iterations of any package: none of them is to be stopped by this.
ITERATIONS = 100_000


@dataclass(frozen=True)
class Peer:
    """A package. module : what is imported. family : whose cases. fits : the problems that it can state. solve :
    problem -> point."""

    name: str
    module: str
    family: str
    fits: Callable[[Any], bool]
    solve: Callable[[Any], Any]


def _hinges(problem: Any) -> bool:
    """Binary hinges, or those of three classes or more that all occur, with a margin of 1 and without a bias."""
    if not isinstance(problem, RegularizedRisk):
        return False
    plain = problem.loss.n_biases == 0 and bool((problem.loss.offset == 1).all())
    several = problem.loss.kind == "multiclass" and len(np.unique(problem.loss.labels)) == problem.shape[0] > 2
    return plain and (problem.loss.kind == "binary" or several)


def _signs(problem: RegularizedRisk) -> Any:
    """y (n,) of binary hinges 1 - y <w, x>."""
    return -np.asarray(sp.csr_array(problem.loss.combine).sum(axis=1)).ravel()


def linear_svc(problem: RegularizedRisk) -> Any:
    from sklearn.svm import LinearSVC

    binary = problem.loss.kind == "binary"
    machine = LinearSVC(
        loss="hinge", C=1.0 / (problem.lam * problem.loss.n_groups), fit_intercept=False, max_iter=ITERATIONS,
        multi_class="ovr" if binary else "crammer_singer", random_state=0,
    )  # fmt: skip
    y = _signs(problem) if binary else problem.loss.labels
    x = problem.X
    if sp.issparse(x):  # it takes indices of 32 bits alone
        x = sp.csr_matrix((x.data, x.indices.astype(np.int32), x.indptr.astype(np.int32)), shape=x.shape)
    machine.fit(x, y, sample_weight=problem.weights)
    return machine.coef_.reshape(problem.shape)


def rehline(problem: RegularizedRisk) -> Any:
    from rehline import plqERM_Ridge

    C = 1.0 / (problem.lam * problem.loss.n_groups)
    machine = plqERM_Ridge(loss={"name": "svm"}, C=C, max_iter=ITERATIONS)
    x = problem.X.toarray() if sp.issparse(problem.X) else np.array(problem.X)
    machine.fit(X=x, y=_signs(problem), sample_weight=problem.weights)
    return np.asarray(machine.coef_).reshape(problem.shape)


def _separable(problem: Any) -> bool:
    """Margin scaling, exact decoding, no signs and no weights."""
    if not isinstance(problem, (StructuredSVM, OracleSVM)):
        return False
    exact = isinstance(problem, OracleSVM) or problem.oracle.exact
    alike = problem.scaling == "margin" and not problem.features.associative and bool(np.ptp(problem.weights) == 0)
    return alike and exact and not (isinstance(problem, StructuredSVM) and problem.oracle.relaxed)


def dlib(problem: StructuredSVM | OracleSVM) -> Any:
    import dlib as package

    features = problem.features

    def rows(labels: Any) -> list[Any]:
        return [package.vector(row) for row in features.joint_each(labels).toarray().tolist()]

    class Separation:
        """What dlib asks: the loss-augmented argmax of one example at a w, for all examples at once here."""

        C = problem.n_examples * float(problem.ceiling[0]) / problem.lam
        num_samples, num_dimensions = problem.n_examples, problem.dimension
        be_verbose = False

        def __init__(self) -> None:
            self.truth, self.at = rows(features.truth), b""

        def get_truth_joint_feature_vector(self, i: int) -> Any:
            return self.truth[i]

        def separation_oracle(self, i: int, current: Any) -> tuple[float, Any]:
            w = np.array(current)
            if w.tobytes() != self.at:
                labels = problem.most_violated(w).labels
                self.at, self.loss, self.joint = w.tobytes(), problem.loss.of(labels), rows(labels)
            return float(self.loss[i]), self.joint[i]

    return np.array(package.solve_structural_svm_problem(Separation()))


def _chains(problem: Any) -> bool:
    """Chains that share one table of transitions, without weights or forbidden pairs."""
    if not isinstance(problem, ConditionalRandomField):
        return False
    features = problem.features
    plain = features.edge_features is None and problem.forbidden is None and bool(np.ptp(problem.weights) == 0)
    inside = np.flatnonzero(np.diff(features.example) == 0)
    chains = np.array_equal(features.edges, np.column_stack((inside, inside + 1)))
    return plain and chains and features.n_edges > 0


def crfsuite(problem: ConditionalRandomField) -> Any:
    import tempfile

    import pycrfsuite

    features, size = problem.features, problem.features.n_labels
    x = sp.csr_array(features.node_features).toarray()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for nodes in np.split(np.arange(len(x)), features.node_start[1:-1]):
        items = [{str(f): float(v) for f, v in enumerate(x[node])} for node in nodes]
        trainer.append(pycrfsuite.ItemSequence(items), [str(label) for label in features.truth[nodes]])
    C = float(problem.ceiling[0])
    # its "frequency" of a feature is the sum of its values, and what is below the least one (0) is left out
    trainer.set_params({
        "c1": problem.l1 / C, "c2": 0.5 * problem.scale.lam / C, "max_iterations": ITERATIONS,
        "feature.minfreq": -1e30,
        "feature.possible_states": True, "feature.possible_transitions": True,
    })  # fmt: skip
    theta = np.zeros(problem.dimension)
    node, edge = features.split(theta)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model")
        trainer.train(file)
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        learned = tagger.info()
        tagger.close()
    for (feature, label), weight in learned.state_features.items():
        node[int(label), int(feature)] = weight
    for (before, after), weight in learned.transitions.items():
        edge.reshape(size, size)[int(before), int(after)] = weight
    return theta


def _binary(problem: Any) -> bool:
    return _hinges(problem) and problem.loss.kind == "binary"


PEERS = (
    Peer("scikit-learn LinearSVC", "sklearn", "regularized_risk", _hinges, linear_svc),
    Peer("ReHLine", "rehline", "regularized_risk", _binary, rehline),
    Peer("dlib", "dlib", "structured_svm", _separable, dlib),
    Peer("CRFsuite", "pycrfsuite", "log_linear", _chains, crfsuite),
)


def rows_of(peer: Peer, limit: float) -> list[dict[str, Any]]:
    """What a package reaches: one row a case that it can state; one row without a case where it is not installed."""
    try:
        importlib.import_module(peer.module)
    except ImportError:
        return [{"package": peer.name, "case": None, "note": f"not installed here (no module {peer.module})"}]
    rows = []
    for case in cases_for(peer.family, open_only=True):
        if peer.fits(case.build()):
            (row,) = verify(peer.solve, on=case.name, limit=limit)
            rows.append({
                "package": peer.name, "case": case.name, "gap": row.fast.gap, "seconds": row.fast.seconds,
                "meets": row.profile, "note": row.note,
            })  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[peer.module for peer in PEERS], help="these packages")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a case")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args()
    limit = number("limit", given.limit, above=0)
    every: list[dict[str, Any]] = []
    for peer in PEERS:
        if given.only and peer.module not in given.only:
            continue
        for row in rows_of(peer, limit):
            every.append(row)
            if row["case"] is None:
                print(f"{row['package']}: {row['note']}", flush=True)
                continue
            cells = f"{row['gap']:9.1e} {row['seconds']:8.2f} s  {row['meets'] or '-':5s}"
            print(f"{row['package']:24s} {row['case']:24s} {cells} {row['note']}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(finite(every), indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
