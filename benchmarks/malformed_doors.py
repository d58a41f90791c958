"""The doors (public functions, constructors, methods) that `benchmarks.malformed` tries, each with valid arguments.

Each row of ``tests/**/refusals.py`` is a door; so are, for every family of the registry, its problems (`solve`,
`certify`, points, dual points, predictions), the options of its solvers and the formulations that write labellings out.
`others` has what no table knows.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs
from convexstruct import datasets, estimators, graphs, plots, verification
from convexstruct.core import registry
from convexstruct.datasets.generated.networks import random_network
from convexstruct.datasets.real import ocr_letters, snakes, sources
from convexstruct.features.counts.window import window
from convexstruct.inference.shards import sharded
from convexstruct.junction_trees import junction_tree
from convexstruct.models import FORMULATIONS
from convexstruct.models.generative_margin import cuts as margin_cuts
from convexstruct.models.structured_svm import cuts as svm_cuts
from convexstruct.verification.export import write_case
from tests.refusals import tables

Doors = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def door(call: Callable[..., Any], name: str = "", /, **sound: Any) -> tuple[str, tuple[Any, dict[str, Any]]]:
    """A row of `Doors`: the name is that of the function, where none is given."""
    return name or call.__qualname__, (call, sound)


def doors() -> Doors:
    """Each door with valid arguments, by name: (callable, its arguments)."""
    problems = sound_problems()
    return {**of_refusals(), **of_problems(problems), **of_solvers(), **of_formulations(problems), **others(problems)}


#: Rows of the tables that stay out: scikit-learn or the functions of the row read the arguments, dicts of features may
#: hold what they like, or no user calls the function.
LEFT_OUT = ("LinearRisk", "answered", "ChainTagger.fit", "frequencies", "gram_features", "learned_network", "runs")


def of_refusals() -> Doors:
    """Those of the tables of refusals, with the arguments that are data or that a row changes; a second one of the same
    name has a number."""
    found: Doors = {}
    for each in (each for each in tables() if str(each) not in LEFT_OUT):
        name = next(name for i in range(99) if (name := f"{each}, {i}" if i else str(each)) not in found)
        changed = {key for change, _ in each.rows for key in change}
        given = {**dict.fromkeys(changed), **optional(each.call), **each.sound}
        made = {key for key in given if type(given[key]).__module__.startswith("convexstruct")}
        tried = {key: given[key] for key in given if key in changed or (key in each.sound and key not in made)}
        found[name] = (partial(each.call, **each.sound), tried)
    return found


def optional(call: Callable[..., Any], *but: str) -> dict[str, Any]:
    """The arguments that have a default, by name, ``but`` for some."""
    given = inspect.signature(call).parameters.items()
    kept = ((name, each.default) for name, each in given if name not in but)
    return {name: default for name, default in kept if default is not inspect.Parameter.empty}


def sound_problems() -> dict[str, Any]:
    """The first small case of each class of problems, by its name."""
    found: dict[str, Any] = {}
    for case in (case for family in registry.families().values() for case in family.cases if case.quick):
        problem: Any = case.build()
        found.setdefault(type(problem).__name__, problem)
    return found


def of_problems(problems: Mapping[str, Any]) -> Doors:
    """`solve`, `certify`, the readers of points and dual points, and predictions."""
    found: Doors = {}
    for name, problem in problems.items():
        first = cs.solve(problem, tol="LOW")
        of_run = {"problem": problem, "point": first.point, "dual_point": first.dual_point}
        found[f"certify {name}"] = (cs.certify, of_run)
        for key, value in first.point.items():
            found[f"point {name} {key}"] = (_with(problem.as_point, first.point, key), {key: value})
        for key, value in (first.dual_point or {}).items():
            found[f"dual {name} {key}"] = (_with(problem.dual_residuals, first.dual_point, key), {key: value})
        limits = {"tol": "LOW", "max_iterations": 3, "time_limit": 5.0, "start": first, "progress": False}
        more = {"solver": None, "callback": lambda *_: None, "executor": None}
        found[f"solve {name}"] = (cs.solve, {"problem": problem, **limits, **more})
        examples = {} if name == "OracleSVM" else {"examples": None}  # which the functions of the case read
        found[f"predict {name}"] = (problem.predict, {"point": first.point, **examples})
    return found


def _with(read: Callable[[Any], Any], whole: Any, key: str) -> Callable[..., Any]:
    """``read`` of the mapping ``whole``, one of whose entries is the argument."""
    return lambda **given: read({**whole, key: given[key]})


def of_solvers() -> Doors:
    """The options of each solver, and each called without the driver."""
    found: Doors = {}
    for name, solver in registry.solvers().items():
        found[f"{name}.iterate"] = (solver().iterate, {"problem": None})
        if options := optional(solver):
            found[f"solvers.{name}"] = (solver, options)
    return found


def of_formulations(problems: Mapping[str, Any]) -> Doors:
    """The builders that write labellings out, up to a limit."""
    found: Doors = {}
    for name, entry in FORMULATIONS.items():
        taken = inspect.signature(entry.builder).parameters
        if entry.enumerated and set(taken) == {"problem", "limit"}:
            problem = next(problems[each] for each in taken["problem"].annotation.split(" | ") if each in problems)
            found[f"builder {name}"] = (entry.builder, {"problem": problem, "limit": 100_000})
    return found


def others(problems: Mapping[str, Any]) -> Doors:
    """Graphs, data, features, constraint generation, formulations, verification, solutions, pictures, estimators."""
    return dict([*of_data(), *of_cuts(problems), *of_programs(problems), *of_answers(problems), *of_estimators()])


Rows = list[tuple[str, tuple[Any, dict[str, Any]]]]


def of_data() -> Rows:
    """Graphs, generators, loaders, readers of real sets from arrays, and the methods of these sets."""
    letters = {"pixels": np.ones((3, 128), dtype=np.uint8), "label": np.array([0, 1, 25])}
    letters |= {"word_start": np.array([0, 1, 3]), "fold": np.array([0, 9])}
    cells: dict[str, Any] = {"shape_train": [[1, 2]], "X_train": [[0, 0, 255], [255, 0, 0]], "Y_train": [0, 1]}
    drawn = {"n_labels": 2, "n_features": 3, "active": 1, "noise": 0.5, "seed": 0}
    net = {"n_nodes": 3, "n_samples": 2, "states": (2, 3), "max_parents": 1, "concentration": 1.0, "seed": 0}
    image = snakes.from_arrays(cells, "train")
    loaders = (datasets.a9a, datasets.conll2000, datasets.protein, datasets.scene, datasets.snakes)
    return [
        door(graphs.chain_graph, length=3, states=2),
        door(graphs.tree_graph, parents=[-1, 0], states=2),
        door(graphs.grid_graph, rows=2, columns=2, states=2),
        door(graphs.hmm_graph, n_states=2, n_symbols=2, length=2),
        door(graphs.chains, lengths=[1, 2]),
        door(junction_tree, graph=nx.path_graph(3), cards=[2, 3, 2], limit=100),
        door(cs.read_factors, cards=[2, 3], scopes=[[0], [0, 1]], design=np.ones((8, 2))),
        door(cs.factors_of_features, cards=[2, 3], features=[[([0], [0.0, 1.0])]]),
        door(cs.tabular_factors, graph=nx.path_graph(3), n_labels=[2, 2, 2], nodes=True, tied=True),
        door(window, sequences=[[0, 1], [1]], n_symbols=2, radius=1),
        door(datasets.ring, n_sequences=2, length=3, n_states=3, noise=(0.3, 0.3), seed=0),
        door(datasets.dense_margins, n=5, d=3, flips=0.1, positives=0.5, seed=0),
        door(datasets.random_chains, n_chains=2, length=3, **drawn),
        door(datasets.random_trees, n_trees=2, n_nodes=3, **drawn),
        door(random_network, **net),
        door(datasets.random_chains(3, 2, 2, 2).some, examples=[0, 2]),
        door(datasets.chain_edges, node_start=[0, 2, 5]),
        door(datasets.grid_edges, shapes=[[2, 3], [1, 1]]),
        door(datasets.ocr_letters, folds=[0, 1]),
        door(ocr_letters.from_arrays(letters).some, words=[0, 1]),
        door(image.picture, i=0),
        door(image.graphs, edges="colours"),
        door(sources.read, "sources.read", name="a9a", part=0),
        door(datasets.fetch, name="a9a"),
        *(door(loader, part="train") for loader in loaders),
    ]


def of_cuts(problems: Mapping[str, Any]) -> Rows:
    """Constraint generation, the limits of a run, and shards."""
    rows = [door(sharded, problem=problems["StructuredSVM"], executor=ThreadPoolExecutor(1), n_shards=2)]
    for cuts, name, option in (
        (svm_cuts, "StructuredSVM", {"slack": "n"}),
        (margin_cuts, "GenerativeMargin", {"one_slack": False}),
    ):
        run = cuts.ConstraintGeneration(problems[name])
        rows += [
            door(cuts.ConstraintGeneration, f"cuts {name}", problem=problems[name], **option),
            door(run.run, f"cuts {name} run", tol="LOW", time_limit=5.0, max_rounds=1),
            door(run.solve, f"cuts {name} solve", solver="CLARABEL", tol="LOW"),
        ]
    return rows


def of_programs(problems: Mapping[str, Any]) -> Rows:
    """What a formulation does."""
    box = FORMULATIONS["projection.box"].builder(problems["BoxProjection"])
    return [
        door(lambda label: box.without(label), "Formulation.without", label=next(iter(box.parts))),
        door(box.adding, name="new", constraint=box.variables["a"] >= 0, latex="a"),
        door(box.minimizing, expression=3.0, latex="3"),
        door(box.maximizing, expression=3.0, latex="3"),
        door(box.reference, solver="CLARABEL"),
        door(box.solve, solver="CLARABEL", tol="HIGH"),
    ]


def of_answers(problems: Mapping[str, Any]) -> Rows:
    """`verify` of a solver and of answers, experiments, profiles; solutions as files and as pictures."""
    case, folder, solution = (
        verification.cases_for("projection")[0], Path(tempfile.mkdtemp()), cs.solve(problems["BoxProjection"]),
    )  # fmt: skip
    write_case(folder, case)
    path = folder / "solution.npz"
    solution.save(path)
    run = {"tol": "MID", "quick": True, "seed": 0, "limit": 5.0, "refresh_references": False, "progress": _told}
    drawn = {"solution": solution, "axes": plots.new_axes(), "against": "seconds", "certified": (0.0, 1.0)}
    row = verification.verify(on=case.name).rows[0]
    return [
        door(cs.verify, "verify a solver", solver=_told, on=case.name, **run, decided=_told),
        door(cs.verify, "verify answers", answers=folder, on=case.name, **run, decided=_told),
        door(cs.check, solver=_told, case=case, tol="MID", limit=5.0),
        door(verification.cases_for, family="projection", quick=True, open_only=True),
        door(cs.experiments.EXPERIMENTS["hadamard"].run, "experiment", quick=True, seed=0, progress=_told),
        door(cs.Profile, name="mine", gap=1e-3, feasibility=1e-3, floor=1e-8),
        door(solution.save, path=path),
        door(cs.Solution.load, path=path, problem=problems["BoxProjection"], largest=10_000),
        door(plots.bounds, "plots.bounds", **drawn),
        door(plots.gap, "plots.gap", traces={"a": solution}, axes=plots.new_axes(), against="seconds"),
        door(plots.compare, "plots.compare", rows=[row]),
        door(plots.traces, "plots.traces", rows=[row]),
        door(registry.choose, problem=problems["BoxProjection"], wanted=cs.HIGH),
    ]


def _told(*_: Any) -> None:
    """A callback that does nothing."""


def of_estimators() -> Rows:
    """Constructors, whose parameters ``fit`` reads, ``fit``, ``predict``, ``save`` and ``load``; `read_conll`.
    `LinearRisk` by its parameters and weights alone: scikit-learn reads its X and y, with errors of its own."""
    rng = np.random.default_rng(0)
    tables, labels = [rng.normal(size=(2, 3)), rng.normal(size=(4, 3))], [[0, 1], [1, 0, 1, 0]]
    paths, symbols, omega = [nx.path_graph(3)], [[0, 1], [2, 1]], [1.0, 2.0]
    nx.set_node_attributes(paths[0], {v: [float(v), 1.0] for v in range(3)}, "x")
    linear = {"X": tables[1], "y": np.array([0, 1, 2, 0])}
    graph_tagger = partial(estimators.GraphTagger, features="x")
    generative_tagger = partial(estimators.GenerativeTagger, loss="margin")
    made: Doors = {
        "ChainTagger": (estimators.ChainTagger, {"X": tables, "y": labels, "sample_weight": omega}),
        "GraphTagger": (graph_tagger, {"X": paths, "y": [[0, 1, 0]], "sample_weight": [1.0]}),
        "GenerativeTagger": (generative_tagger, {"X": symbols, "y": labels[:1] * 2, "sample_weight": omega}),
    }
    rows = [
        door(lambda **given: estimators.LinearRisk(**given).fit(**linear), "parameters of LinearRisk",
             **optional(estimators.LinearRisk, "class_weight")),
        door(lambda sample_weight: estimators.LinearRisk(tol="LOW").fit(**linear, sample_weight=sample_weight),
             "LinearRisk.fit, weights", sample_weight=np.ones(4)),
    ]  # fmt: skip
    for name, (kind, given) in made.items():
        rows += [
            door(lambda kind=kind, given=given, **chosen: kind(**chosen).fit(**given), f"parameters of {name}",
                 **optional(kind, "smoothing")),
            door(kind(tol="LOW").fit, f"{name}.fit, weights", **given),
        ]  # fmt: skip
    chain = estimators.ChainTagger("likelihood", tol="LOW").fit(tables, labels)
    folder = Path(tempfile.mkdtemp())
    path = chain.save(folder / "tagger.npz")
    (folder / "tagged.txt").write_text("word NN O\n")
    conll = {"path": folder / "tagged.txt", "columns": ["w", "t", "c"], "label": -1, "delimiter": None, "comment": None}
    return [
        *rows,
        door(chain.predict, "ChainTagger.predict", X=tables),
        door(estimators.GenerativeTagger().fit(symbols, labels[:1] * 2).predict, "GenerativeTagger.predict", X=symbols),
        door(chain.save, "ChainTagger.save", path=path),
        door(estimators.ChainTagger.load, "ChainTagger.load", path=path, largest=10_000),
        door(datasets.read_conll, **conll),
    ]
