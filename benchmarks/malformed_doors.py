"""The doors (public functions, constructors, methods) that `benchmarks.malformed` tries, each with valid arguments."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs
from convexstruct import datasets, graphs, losses, plots, solvers, verification
from convexstruct.core import registry
from convexstruct.datasets.generated.networks import random_network
from convexstruct.datasets.real import a9a, conll2000, connect4, ocr_letters, protein, scene, snakes, sources, svmlight
from convexstruct.families.gaussian_process.kernels import Gram, Kernel
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.window import window
from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.inference.shards import sharded
from convexstruct.junction_trees import junction_tree
from convexstruct.models import FORMULATIONS
from convexstruct.models.generative_margin import cuts as margin_cuts
from convexstruct.models.structured_svm import cuts as svm_cuts
from convexstruct.tolerances import profile
from convexstruct.verification.export import write_case

Doors = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def door(call: Callable[..., Any], name: str = "", /, **sound: Any) -> tuple[str, tuple[Any, dict[str, Any]]]:
    """A row of `Doors`: the name is that of the function, where none is given."""
    return name or call.__qualname__, (call, sound)


def doors() -> Doors:
    """Each door with valid arguments, by name: (callable, its arguments)."""
    problems = sound_problems()
    found = {**constructors(), **of_problems(problems), **of_predictions(problems), **of_data(), **of_real_sets()}
    found |= {**of_cuts(problems), **of_verification()}
    return {**found, **of_formulations(problems), **of_solutions(problems), **of_estimators()}


def arguments() -> tuple[Any, Any, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """X (6, 3), y (6,), and what makes a hidden Markov model, an SVM and tables on chains."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    hmm = {"symbols": [[0, 1], [2]], "states": [[0, 1], [1]], "n_states": 2, "n_symbols": 3}
    svm = {"node_features": [X[:2], X[2:]], "labels": [[0, 1], [1, 0, 1, 0]], "n_labels": 2, "C": 1.0}
    chains = {"lengths": [2, 3], "edge": rng.normal(size=(3, 2, 2)), "node": rng.normal(size=(5, 2)), "n_labels": 2}
    svm |= {"edges": [[[0, 1]], [[0, 1], [1, 2]]], "loss": [[0.0, 1.0], [1.0, 0.0]], "weights": [1.0, 2.0]}
    return X, y, hmm, svm, chains


def choice() -> dict[str, Any]:
    """What makes a structural SVM with an oracle: one of three labels for each example."""

    def joint_feature(x: Any, y: Any) -> Any:
        if not isinstance(x, float) or y[0] > 2:
            raise ValueError("wanted an input that is a number, with a label from 0 to 2")
        return np.eye(3)[y[0]] * x

    def loss(y: Any, predicted: Any) -> float:
        return float(y[0] != predicted[0])

    def best(x: Any, y: Any, w: Any) -> Any:
        if not (isinstance(x, float) and np.isfinite(x)):
            raise ValueError("x is no number, wanted one")
        value = w * x + (0.0 if y is None else np.arange(3) != y[0])
        return [int(np.argmax(value))], float(value.max())

    functions = {"joint_feature": joint_feature, "loss": loss, "best": best}
    return {**functions, "examples": [(1.0, [0]), (-0.5, [2])], "weights": [1.0, 2.0], "exact": False, "C": 1.0}


def constructors() -> Doors:
    """The functions that make problems, graphs, features and losses."""
    X, y, hmm, svm, chains = arguments()
    graph = graphs.chain_graph(3, 2)
    risk = {"X": X, "lam": 0.1, "weights": np.ones(6)}
    field = {"factors": cs.tabular_factors(nx.path_graph(3), 2), "lam": 1.0}
    never = [([0, 2], [[True, False], [False, True]])]
    samples, omega, pairs = [[0, 1, 1], [1, 0, 0]], [1.0, 2.0], [[0, 1], [1, 0, 1, 0]]
    crf = {name: value for name, value in svm.items() if name != "loss"}
    shown = {name: hmm[name] for name in ("symbols", "n_states", "n_symbols")}
    channels, sets = [np.zeros((2, 2), int), np.zeros((1, 2), int)], np.ones((2, 3, 2), dtype=bool)
    tables, counts = [np.ones((2, 2)), np.ones(2)], [[1.0, 1.0]] * 3 + [np.full((2, 2), 0.5)] * 2
    sampled, both = {**field, "samples": samples, "weights": omega}, [[False, False], [False, True]]
    hidden = {"node_features": svm["node_features"], "forbidden": [[False, True], [False, False]]}
    return dict([
        door(cs.GenerativeMargin.hmm, **hmm, eta=0.5, weights=[1.0, 1.0]),
        door(cs.GenerativeMargin.network, graph=graph, assignments=samples, hidden=[0, 2], eta=0.5),
        door(cs.StructuredSVM.read, **svm),
        door(cs.StructuredSVM.from_oracle, **choice()),
        door(cs.RegularizedRisk.binary, **risk, y=y % 2, bias=True),
        door(cs.RegularizedRisk.multiclass, **risk, y=y, n_classes=3),
        door(cs.RegularizedRisk.multilabel, **risk, Y=np.eye(3)[y]),
        door(cs.RegularizedRisk.ordinal, **risk, y=y, thresholds=[0.0, 1.0]),
        door(cs.RegularizedRisk.pieces, A=X, b=np.zeros(6), lam=0.1, example=[0, 0, 1, 1, 2, 2], floor=True),
        door(cs.BoxProjection, m=X[0], lower=0.0, upper=1.0, s=np.ones(3), z=1.0, d=1.0),
        door(cs.BoxProjection.simplex, m=X[0], z=1.0, d=1.0),
        door(cs.MarginalProjection.graph, cliques=[["a", "b"], ["b"]], m=tables, d=1.0, scale=1.0),
        door(cs.MarginalProjection.chains, **chains),
        door(cs.GaussianProcessSequences.read, inputs=[X[:2], X[2:]], labels=pairs, n_labels=2, kernel="rbf", lam=1.0),
        door(cs.GaussianProcessSequences.from_gram, gram=np.eye(6), labels=pairs, n_labels=2, eta=1.0),
        door(Gram, matrix=np.eye(3)),
        door(Kernel, name="rbf", gamma=1.0, offset=0.0, degree=2),
        door(HMMCounts.read, "HMMCounts.read, channels", **(hmm | {"symbols": channels})),
        door(window, sequences=[[0, 1], [1]], n_symbols=2, radius=1),
        door(graphs.chain_graph, length=3, states=2),
        door(graphs.tree_graph, parents=[-1, 0], states=2),
        door(graphs.grid_graph, rows=2, columns=2, states=2),
        door(graphs.hmm_graph, n_states=2, n_symbols=2, length=2),
        door(graphs.chains, lengths=[1, 2]),
        door(graphs.read_bayesian_network, graph=graph),
        door(losses.cost_matrix, cost=[[0.0, 1.0], [1.0, 0.0]], n_labels=2),
        door(losses.ring, "losses.ring", n_labels=3),
        door(cs.ConditionalRandomField.read, **crf, l1=0.1),
        door(cs.MarkovRandomField.read, "MarkovRandomField.read samples", **sampled, l1=0.1, forbidden=never),
        door(cs.MarkovRandomField.read, "MarkovRandomField.read counts", **field, counts=counts),
        door(cs.MarkovRandomField.read, "MarkovRandomField.read moments", **field, moments=[0.5] * 6 + [0.25] * 8),
        door(cs.HiddenField.conditional, **hidden, allowed=[[0, -1], [1, -1, -1, 0]], n_labels=2, lam=1.0),
        door(cs.HiddenField.unconditional, **field, samples=[[0, -1, 1], [1, 0, -1]], weights=omega, forbidden=never),
        door(cs.HiddenField.unconditional, "HiddenField.unconditional sets", **field, samples=sets),
        door(cs.HiddenMarkov.read, **shown, weights=omega, pseudocounts=0.5),
        door(cs.PseudoLikelihood.read, **sampled, l1=0.1, forbidden=never, targets=[0, 2]),
        door(cs.ApproximateField.read, **(sampled | {"samples": [[0, 1, 0], [1, 0, 0]]}), forbidden=both),
        door(cs.read_factors, cards=[2, 3], scopes=[[0], [0, 1]], design=np.ones((8, 2))),
        door(cs.factors_of_features, cards=[2, 3], features=[[([0], [0.0, 1.0])]]),
        door(cs.tabular_factors, graph=nx.path_graph(3), n_labels=[2, 2, 2], nodes=True, tied=True),
        door(junction_tree, graph=nx.path_graph(3), cards=[2, 3, 2], limit=100),
    ])  # fmt: skip


def sound_problems() -> dict[str, Any]:
    """A problem of each kind."""
    X, y, hmm, svm, chains = arguments()
    return {
        "generative_margin": cs.GenerativeMargin.hmm(**hmm, eta=0.5),
        "structured_svm": cs.StructuredSVM.read(**svm),
        "oracle": cs.StructuredSVM.from_oracle(**choice()),
        "regularized_risk": cs.RegularizedRisk.binary(X, y % 2, 0.1, bias=True),
        "box": cs.BoxProjection.simplex(X[0]),
        "tables": cs.MarginalProjection.chains(**chains),
        "gaussian_process": cs.GaussianProcessSequences.from_gram(np.eye(6), [[0, 1], [1, 0, 1, 0]], 2),
        "pseudolikelihood": cs.PseudoLikelihood.read(
            cs.tabular_factors(nx.path_graph(2), 2), [[0, 1], [1, 0]], lam=1.0
        ),
        "hidden_markov": cs.HiddenMarkov.read(hmm["symbols"], 2, 3),
        "conditional": cs.ConditionalRandomField.read([X[:2], X[2:]], [[0, 1], [1, 0, 1, 0]], 2, lam=1.0),
        "field": cs.MarkovRandomField.read(cs.tabular_factors(nx.path_graph(3), 2), [[0, 1, 1], [1, 0, 0]], lam=1.0),
    }


def of_problems(problems: dict[str, Any]) -> Doors:
    """`solve`, `certify`, the readers of points and dual points, and the options of solvers."""
    found: Doors = {}
    for name, problem in problems.items():
        first = cs.solve(problem, tol="LOW")
        sound = {"problem": problem, "point": first.point, "dual_point": first.dual_point}
        found[f"certify {name}"] = (cs.certify, sound)
        for key, value in first.point.items():
            found[f"point {name} {key}"] = (_with(problem.as_point, first.point, key), {key: value})
        for key, value in (first.dual_point or {}).items():
            found[f"dual {name} {key}"] = (_with(problem.dual_residuals, first.dual_point, key), {key: value})
        limits = {"tol": "LOW", "max_iterations": 3, "time_limit": 5.0, "start": first, "progress": False}
        more = {"solver": None, "callback": lambda *_: None, "executor": None}
        found[f"solve {name}"] = (cs.solve, {"problem": problem, **limits, **more})
    for name in solvers.__all__:
        solver = getattr(solvers, name)
        options = getattr(solver, "__dataclass_fields__", None)
        if options and hasattr(solver, "iterate"):
            found[f"solvers.{name}"] = (solver, {key: field.default for key, field in options.items()})
    return found


def _with(read: Callable[[Any], Any], whole: Any, key: str) -> Callable[..., Any]:
    """``read`` of the mapping ``whole``, one of whose entries is the argument."""
    return lambda **given: read({**whole, key: given[key]})


def of_predictions(problems: dict[str, Any]) -> Doors:
    """Predictions, scores and selections, for the examples of a problem and for new ones."""
    X = arguments()[0]
    examples = {
        "generative_margin": [[0, 1], [2]],
        "structured_svm": {"node_features": [X[:2]], "edges": [[[0, 1]]]},
        "oracle": [1.0, 2.0],
        "regularized_risk": X,
        "gaussian_process": [X],
        "conditional": [X[:2], X[2:]],
        "field": [[-1, 0, -1], [1, -1, 1]],
        "pseudolikelihood": [[-1, 0]],
        "hidden_markov": [[0, 1], [2]],
    }
    found: Doors = {}
    for name, problem in problems.items():
        point = problem.trivial()[0]
        found[f"predict {name}"] = (problem.predict, {"point": point, "examples": examples.get(name)})
    process, risk, svm = (problems[name] for name in ("gaussian_process", "regularized_risk", "structured_svm"))
    columns = {"node_features": [X[:2]], "edges": [[[0, 1]]]}
    for key, value in columns.items():
        predict = partial(svm.predict, svm.trivial()[0])
        found[f"predict structured_svm {key}"] = (_with(predict, columns, key), {key: value})
    features = svm.features
    read = {"node_features": [X[:2], X[2:]], "labels": [[0, 1], [1, 0, 1, 0]], "n_labels": 2, "edges": "chain"}
    more = [
        door(process.posteriors, "posteriors", point=process.trivial()[0], examples=[X]),
        door(risk.scores, w=np.zeros(3), X=X),
        door(features.some, examples=[1, 0]),
        door(features.graph, i=1),
        door(features.split_labels, labels=[0, 1, 1, 0, 1, 0]),
        door(read_pairwise, "PairwiseFeatures.read", **read),
        door(sharded, problem=svm, executor=ThreadPoolExecutor(1), n_shards=2),
    ]
    return {**found, **dict(more)}


def of_cuts(problems: dict[str, Any]) -> Doors:
    """Constraint generation: its constructor, and the limits of a run."""
    found: Doors = {}
    for kind, slack in ((svm_cuts, ("slack", "n")), (margin_cuts, ("one_slack", False))):
        name = kind.__name__.split(".")[-2]
        made = {"problem": problems[name], slack[0]: slack[1]}
        found[f"cuts {name}"] = (kind.ConstraintGeneration, made)
        run = kind.ConstraintGeneration(problems[name])
        found[f"cuts {name} run"] = (run.run, {"tol": "LOW", "time_limit": 5.0, "max_rounds": 1})
        found[f"cuts {name} solve"] = (run.solve, {"solver": "CLARABEL", "tol": "LOW"})
    return found


def of_real_sets() -> Doors:
    """The readers of real sets, from text and arrays, and the methods of these sets."""
    letters = {
        "pixels": np.ones((3, 128), dtype=np.uint8),
        "label": np.array([0, 1, 25]),
        "word_start": np.array([0, 1, 3]),
        "fold": np.array([0, 9]),
    }
    cells: dict[str, Any] = {"shape_train": [[1, 2]], "X_train": [[0, 0, 255], [255, 0, 0]], "Y_train": [0, 1]}
    images = {"X_test": np.ones((2, 294)), "y_test": np.eye(6, dtype=int)[:2]}
    words, image = ocr_letters.from_arrays(letters), snakes.from_arrays(cells, "train")
    sentences = conll2000.parse("word NN O")
    return dict([
        door(a9a.parse, "a9a.parse", text="+1 1:1"),
        door(conll2000.parse, "conll2000.parse", text="word NN O"),
        door(connect4.parse, "connect4.parse", text="b," * 42 + "win"),
        door(protein.parse, "protein.parse", text="A _"),
        door(words.some, words=[0, 1]),
        door(image.picture, i=0),
        door(image.graphs, edges="colours"),
        door(sentences.sentence, i=0),
        door(ocr_letters.from_arrays, "ocr_letters.from_arrays", arrays=letters),
        door(snakes.from_arrays, "snakes.from_arrays", arrays=cells, part="train"),
        door(scene.from_arrays, "scene.from_arrays", arrays=images, part="test"),
        door(lambda **given: ocr_letters.from_arrays(given), "ocr_letters arrays", **letters),
        door(lambda **given: snakes.from_arrays(given, "train"), "snakes arrays", **cells),
        door(lambda **given: scene.from_arrays(given, "test"), "scene arrays", **images),
    ])  # fmt: skip


def of_data() -> Doors:
    """Generators, loaders and file readers."""
    images = {"n_images": 2, "height": 3, "width": (2, 3), "noise": 0.5, "smoothness": 1.0, "seed": 0}
    drawn = {"n_nodes": 3, "n_labels": 2, "n_features": 3, "active": 1, "noise": 0.5, "seed": 0}
    margins = {"n": 5, "d": 3, "flips": 0.1, "positives": 0.5, "seed": 0}
    chains = datasets.random_chains(3, 2, 2, 2)
    words = {name: value for name, value in drawn.items() if name != "n_nodes"}
    net = {"n_nodes": 3, "n_samples": 2, "states": (2, 3), "max_parents": 1, "concentration": 1.0, "seed": 0}
    loaders = (datasets.a9a, datasets.conll2000, datasets.protein, datasets.scene, datasets.snakes)
    return dict([
        door(datasets.ring, n_sequences=2, length=3, n_states=3, noise=(0.3, 0.3), seed=0),
        door(datasets.hadamard, d=4),
        door(datasets.dense_margins, **margins),
        door(datasets.sparse_margins, **margins, words=2),
        door(datasets.random_chains, n_chains=2, length=3, **words),
        door(datasets.random_trees, n_trees=2, **drawn),
        door(datasets.random_graphs, n_graphs=2, **drawn, extra=1, sweeps=2),
        door(datasets.noisy_images, **images),
        door(random_network, **net),
        door(chains.some, examples=[0, 2]),
        door(datasets.chain_edges, node_start=[0, 2, 5]),
        door(datasets.grid_edges, shapes=[[2, 3], [1, 1]]),
        door(svmlight.parse, "svmlight.parse", text="1 1:1", n_features=2),
        door(datasets.ocr_letters, folds=[0, 1]),
        door(sources.read, "sources.read", name="a9a", part=0),
        door(datasets.fetch, name="a9a"),
        *(door(loader, part="train") for loader in loaders),
    ])  # fmt: skip


def of_verification() -> Doors:
    """`verify` of a solver and of answers, `check`, lists of cases, experiments, profiles."""
    case = verification.cases_for("projection")[0]
    folder = Path(tempfile.mkdtemp())
    write_case(folder, case)
    run = {"tol": "MID", "quick": True, "seed": 0, "limit": 5.0, "refresh_references": False, "progress": _told}
    return dict([
        door(cs.verify, solver=_told, on=case.name, **run, decided=_told),
        door(cs.verify, "verify answers", answers=folder, on=case.name, **run, decided=_told),
        door(cs.check, solver=_told, case=case, tol="MID", limit=5.0),
        door(verification.cases_for, family="projection", quick=True, open_only=True),
        door(cs.experiments.EXPERIMENTS["hadamard"].run, "experiment", quick=True, seed=0, progress=_told),
        door(profile, name="HIGH"),
        door(cs.Profile, name="mine", gap=1e-3, feasibility=1e-3, floor=1e-8),
    ])  # fmt: skip


def _told(*_: Any) -> None:
    """A callback that does nothing."""


def of_formulations(problems: dict[str, Any]) -> Doors:
    """Builders with their options, and what a formulation does."""
    box = FORMULATIONS["projection.box"].builder(problems["box"])
    label = next(iter(box.parts))
    margin, risk = problems["generative_margin"], problems["regularized_risk"]
    proximal = {"problem": margin, "gamma": 1.0, "centre": margin.uniform(), "limit": 100}
    planes = [risk.subgradient(np.zeros(3))]
    smoothing = {"problem": risk, "mu": 1.0, "centre": np.zeros(risk.n_pieces)}
    found = dict([
        door(FORMULATIONS["generative_margin.proximal"].builder, "proximal", **proximal),
        door(FORMULATIONS["generative_margin.proximal_dual"].builder, "proximal_dual", **proximal),
        door(FORMULATIONS["regularized_risk.bmrm"].builder, "bmrm", problem=risk, planes=planes),
        door(FORMULATIONS["regularized_risk.smoothed"].builder, "smoothed", **smoothing),
        door(FORMULATIONS["regularized_risk.smoothed_dual"].builder, "smoothed_dual", **smoothing),
        door(lambda label: box.without(label), "Formulation.without", label=label),
        door(box.adding, name="new", constraint=box.variables["a"] >= 0, latex="a"),
        door(box.minimizing, expression=3.0, latex="3"),
        door(box.maximizing, expression=3.0, latex="3"),
        door(box.reference, solver="CLARABEL"),
        door(box.solve, solver="CLARABEL", tol="HIGH"),
    ])  # fmt: skip
    for name, entry in FORMULATIONS.items():
        if entry.enumerated and name.split(".")[1] not in ("proximal", "proximal_dual"):
            wanted = entry.builder.__annotations__["problem"].split(" | ")
            problem = next(each for each in problems.values() if type(each).__name__ in wanted)
            if "limit" in getattr(entry.builder, "__wrapped__", entry.builder).__annotations__:
                found[f"builder {name}"] = (entry.builder, {"problem": problem, "limit": 10_000})
    return found


def of_solutions(problems: dict[str, Any]) -> Doors:
    """Solutions as files and as pictures; solvers called without the driver."""
    solution = cs.solve(problems["box"])
    path = Path(tempfile.mkdtemp()) / "solution.npz"
    solution.save(path)
    drawn = {"solution": solution, "axes": plots.new_axes(), "against": "seconds", "certified": (0.0, 1.0)}
    row = verification.verify(on=verification.cases_for("projection")[0].name).rows[0]
    found = dict([
        door(solution.save, path=path),
        door(cs.Solution.load, path=path, problem=problems["box"], largest=10_000),
        door(plots.bounds, "plots.bounds", **drawn),
        door(plots.gap, "plots.gap", traces={"a": solution}, axes=plots.new_axes(), against="seconds"),
        door(plots.compare, "plots.compare", rows=[row]),
        door(plots.traces, "plots.traces", rows=[row]),
        door(registry.choose, problem=problems["box"], wanted=cs.HIGH),
    ])  # fmt: skip
    for name, solver in registry.solvers().items():
        found[f"{name}.iterate"] = (solver().iterate, {"problem": None})
    return found


def of_estimators() -> Doors:
    """Constructors, whose parameters ``fit`` reads, ``fit``, ``predict``, ``save`` and ``load``; `read_conll`.
    `LinearRisk` by its parameters and weights alone: scikit-learn reads its X and y, with errors of its own."""
    from convexstruct.estimators import ChainTagger, GenerativeTagger, GraphTagger, LinearRisk

    rng = np.random.default_rng(0)
    tables, labels = [rng.normal(size=(2, 3)), rng.normal(size=(4, 3))], [[0, 1], [1, 0, 1, 0]]
    paths = [nx.path_graph(3)]
    nx.set_node_attributes(paths[0], {v: [float(v), 1.0] for v in range(3)}, "x")
    symbols, omega = [[0, 1], [2, 1]], [1.0, 2.0]
    chain = ChainTagger("likelihood", tol="LOW").fit(tables, labels)
    generative = GenerativeTagger().fit(symbols, labels[:1] * 2)
    linear = {"X": tables[1], "y": np.array([0, 1, 2, 0])}
    run = {"solver": None, "tol": "LOW", "max_iterations": 1000, "time_limit": 60.0, "progress": False}
    own = {**run, "C": 1.0, "warm_start": False}
    folder = Path(tempfile.mkdtemp())
    path = chain.save(folder / "tagger.npz")
    (folder / "tagged.txt").write_text("word NN O\n")
    conll = {"path": folder / "tagged.txt", "columns": ["w", "t", "c"], "label": -1, "delimiter": None, "comment": None}
    parameters = {**own, "loss": "likelihood", "cost": "hamming", "l1": 0.0, "vectorizer": None}
    graph_tagger = partial(GraphTagger, "likelihood", tol="LOW", features="x")
    risk = {**own, "loss": "auto", "cost": 1.0 - np.eye(3), "fit_intercept": True}
    return dict([
        door(lambda **given: ChainTagger(**given).fit(tables, labels), "ChainTagger", **parameters),
        door(ChainTagger(tol="LOW").fit, "ChainTagger.fit", X=tables, y=labels, sample_weight=omega),
        door(chain.predict, "ChainTagger.predict", X=tables),
        door(chain.save, "ChainTagger.save", path=path),
        door(ChainTagger.load, "ChainTagger.load", path=path, largest=10_000),
        door(
            lambda **given: graph_tagger(**given).fit(paths, [[0, 1, 0]]), "GraphTagger",
            associative=False, inference="exact",
        ),
        door(graph_tagger().fit, "GraphTagger.fit", X=paths, y=[[0, 1, 0]], sample_weight=[1.0]),
        door(
            lambda **given: GenerativeTagger(**given).fit(symbols, labels[:1] * 2), "GenerativeTagger",
            loss="likelihood", C=1.0, smoothing=1.0, warm_start=False,
        ),
        door(GenerativeTagger().fit, "GenerativeTagger.fit", X=symbols, y=labels[:1] * 2, sample_weight=omega),
        door(generative.predict, "GenerativeTagger.predict", X=symbols),
        door(lambda **given: LinearRisk(**given).fit(**linear), "LinearRisk", **risk),
        door(
            lambda sample_weight: LinearRisk(tol="LOW").fit(**linear, sample_weight=sample_weight), "LinearRisk.fit",
            sample_weight=np.ones(4),
        ),
        door(cs.datasets.read_conll, **conll),
    ])  # fmt: skip
