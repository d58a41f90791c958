"""Study `defaults`: is the solver that `solve` chooses the best engine of its family, and faster than Clarabel?

    python benchmarks/defaults.py [--only NAME ...] [--family NAME ...] [--level LOW HIGH] [--limit SECONDS]
                                  [--markdown FILE] [--json FILE]

Problems from tiny to large. For each, to LOW and to HIGH: the default; every engine of the registry that takes
the problem, with its default options; and Clarabel on the family's formulation, built and solved, the first of those
that the registry's systems name (of polynomial size before written out) whose answer certifies that gap. Every run is a
process of its own with one thread, whose memory is limited. Seconds are the processor's, from the problem to the
certificate; short runs are repeated on a problem made anew, and the fastest counts. A rival is ended where it has had
`RACE` times what the default took, for then it has lost. What counts is `certify` on the problem itself.

Goal: the default within `RATIO` times the best engine (`SHORT_RATIO` where it takes less than `SHORT` seconds), never
slower than Clarabel, and OPTIMAL at HIGH within 120 s.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import generative_margin, log_linear_entropy, projection, regularized_risk, unsupervised_margin
from benchmarks.measure import Run, child, launch, new_console, write

DEFAULT, CLARABEL = "default", "Clarabel"
#: What the default may take at most, in units of the best engine; below `SHORT` seconds, where less is decided by it.
RATIO, SHORT_RATIO, SHORT = 1.2, 2.0, 0.05
#: Seconds for a run of the default, by the clock; MiB for a process; what a process may take besides its runs.
LIMIT, MEMORY, START = 120.0, 6144, 60.0
#: A rival has so many times the seconds of the default, and so many more.
RACE, RACE_LEAST = 3.0, 1.0
#: A run is repeated until so many seconds have gone, and at most so often.
REPEAT, REPEATS = 0.5, 5
LEVELS = ("LOW", "HIGH")
COLUMNS = ("problem", "level", "default", "engine", "best", "engine", "ratio", "Clarabel", "ratio", "verdict")


# -- the problems ------------------------------------------------------------------------------------------------------


def case(family: str, name: str, scale: int = 1) -> Any:
    """A case of the family, ``scale`` times as large."""
    from convexstruct.core.registry import families

    make: Any = next(case.make for case in families()[family].cases if case.name == name)
    return make(0, **({"scale": scale} if scale > 1 else {})).problem


def margin(data: Any, **options: Any) -> Any:
    """The structural SVM of labelled graphs; C = 1 where no other scale is given."""
    from convexstruct.families.structured_svm import StructuredSVM

    given = {"edges": data.edges_each, "edge_features": data.edge_features_each, **options}
    if not given.keys() & {"C", "C_mean", "lam", "beta"}:
        given["C"] = 1.0
    return StructuredSVM.read(data.node_features, data.labels_each, data.n_labels, **given)


def chains(n: int, length: int, labels: int, features: int = 30, seed: int = 0, **options: Any) -> Any:
    """Drawn from planted weights."""
    from convexstruct import datasets

    return margin(datasets.random_chains(n, length, labels, features, seed=seed), **options)


def trees(n: int, nodes: int, labels: int, **options: Any) -> Any:
    from convexstruct import datasets

    return margin(datasets.random_trees(n, nodes, labels, seed=0), **options)


def images(n: int, side: int, seed: int = 0, **options: Any) -> Any:
    """Noisy ones of two regions."""
    from convexstruct import datasets

    return margin(datasets.noisy_images(n, side, side, seed=seed), **options)


def sentences(n: int, rare: bool) -> Any:
    """Data of the first sentences of CoNLL-2000, words and tags at distance 2 at most, all that occur; rare : half of
    the words are replaced by others that occur nowhere else."""
    import numpy as np

    from convexstruct.datasets import Sentences, conll2000
    from convexstruct.families.log_linear.experiments.chunking import Data

    train = conll2000("train").between(0, n)
    if rare:
        replaced = np.random.default_rng(0).random(len(train.tokens)) < 0.5
        tokens = [t._replace(word=f"rare-{i}") if new else t for i, (t, new) in enumerate(zip(train.tokens, replaced))]
        train = Sentences(tokens, train.sentence_start)
    data = Data.of(train, train.between(0, 1), 1)
    kept = sorted({name for row in data.rows for name in row if name.startswith(("bias", "w[", "t["))})
    return data._replace(columns={name: at for at, name in enumerate(kept)})


def text(C: float, rare: bool, n: int = 600, random_field: bool = False) -> Any:
    """`sentences` as a structural SVM, or as a conditional random field."""
    from convexstruct.families.log_linear import ConditionalRandomField
    from convexstruct.families.log_linear.experiments.chunking import table

    data = sentences(n, rare)
    if not random_field:
        return data.margin(C)
    return ConditionalRandomField.read(table(data.rows, data.columns), data.labels, len(data.used), C=C)


def connect4(rows: int, eta: float) -> Any:
    """Positions of Connect-4 by naive Bayes, the class hidden."""
    import numpy as np

    from convexstruct.datasets import connect4
    from convexstruct.families.generative_margin.experiments.connect4 import assignments, network, problem

    return problem(network(np.zeros(0, dtype=np.int64)), assignments(connect4())[:rows], eta)


def field(n: int, length: int, labels: int, features: int = 30, seed: int = 0, **options: Any) -> Any:
    """A conditional random field on dense chains drawn from planted weights."""
    from convexstruct import datasets
    from convexstruct.families.log_linear import ConditionalRandomField

    data = datasets.random_chains(n, length, labels, features, seed=seed)
    return ConditionalRandomField.read(data.node_features, data.labels_each, labels, **options)


def kernel(n: int, length: int, lam: float) -> Any:
    """Windows of symbols on the ring, a radial kernel."""
    from convexstruct.families.gaussian_process.cases import windows

    return windows(0, n, length, 5, kernel=("rbf", {"gamma": 0.3}), lam=lam).problem


Ring, Risk = generative_margin.Workload, regularized_risk.Workload
Box, Symbols = projection.Workload, unsupervised_margin.Workload
SVM = "structured_svm"
#: By family, small ones first: name -> the problem, made anew.
PROBLEMS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    SVM: {
        "svm-5x5": partial(chains, 5, 5, 4),
        "svm-20x10": partial(chains, 20, 10, 6),
        "svm-oracle": partial(case, SVM, "oracle-ranking"),
        "svm-trees": partial(trees, 40, 12, 5),
        "svm-frustrated": partial(case, SVM, "m3n-frustrated"),
        "svm-two-labels": partial(chains, 300, 10, 2),
        "svm-long": partial(chains, 4, 2000, 5),
        "svm-64-labels": partial(chains, 100, 10, 64),
        "svm-200x20": partial(chains, 200, 20, 8),
        "svm-200x20-C-1e-3": partial(chains, 200, 20, 8, C=1e-3),
        "svm-200x20-C-1e3": partial(chains, 200, 20, 8, C=1e3),
        "svm-images": partial(images, 20, 20, associative=True, inference="minimum_cut", C=0.02),
        "svm-3000x20": partial(chains, 3000, 20, 8),
        "svm-text-C-0.2": partial(text, 0.2, False),
        "svm-text-C-1": partial(text, 1.0, False),
        "svm-text-C-5": partial(text, 5.0, False),
        "svm-rare-C-0.2": partial(text, 0.2, True),
        "svm-rare-C-1": partial(text, 1.0, True),
        "svm-rare-C-5": partial(text, 5.0, True),
    },
    "generative_margin": {
        "ring-10x10": Ring(10, 10, 5).build,
        "ring-100x20-eta-1e-3": Ring(100, 20, eta=1e-3).build,
        "ring-100x20-eta-1": Ring(100, 20, eta=1.0).build,
        "ring-100x20-eta-1e3": Ring(100, 20, eta=1e3).build,
        "ring-100x20-eta-1e6": Ring(100, 20, eta=1e6).build,
        "ring-30-states": Ring(states=30).build,
        "noise-100x20-eta-10": Ring(100, 20, 5, "ALL", 10.0).build,
        "noise-100x20-eta-1e6": Ring(100, 20, 5, "ALL", 1e6).build,
        "noise-60x10-15-states-eta-1e2": Ring(60, 10, 15, "ALL", 1e2).build,
        "noise-60x10-15-states-eta-1e5": Ring(60, 10, 15, "ALL", 1e5).build,
        "connect4-1000": partial(connect4, 1000, 1e-2),
        "connect4-5000": partial(connect4, 5000, 1e-2),
    },
    "regularized_risk": {
        "risk-500x20": Risk(n=500, d=20).build,
        "risk-5000x200-C-1e-3": Risk(C=1e-3).build,
        "risk-5000x200-C-1": Risk().build,
        "risk-5000x200-C-1e3": Risk(C=1e3).build,
        "risk-sparse": Risk("sparse", 20_000, 5000).build,
        "risk-50-classes": Risk(d=50, loss="multiclass", classes=50).build,
        "risk-multilabel": Risk(n=2000, d=100, loss="multilabel").build,
    },
    "projection": {
        "box-1000": Box("bias", 1000).box,
        "box-1e6": Box("capped").box,
        "tables-20": Box("chains", 20, labels=5).chains,
        "tables-100": Box("chains", 100).chains,
    },
    "gaussian_process": {
        "kernel-8x12": partial(kernel, 8, 12, 1.0),
        "kernel-60x20-lam-1e-3": partial(kernel, 60, 20, 1e-3),
        "kernel-60x20": partial(kernel, 60, 20, 1.0),
    },
    "energy_network": {
        "energy-larger": partial(case, "energy_network", "energy-larger"),
        "energy-small-x100": partial(case, "energy_network", "energy-small", 100),
        "energy-inference": partial(case, "energy_network", "energy-inference-low-rank"),
    },
    "log_linear": {
        "field-5x20": log_linear_entropy.EntropyWorkload(5).field,
        "field-200x20-C-1e-3": partial(field, 200, 20, 8, C=1e-3),
        "field-200x20-C-1e3": partial(field, 200, 20, 8, C=1e3),
        "field-200x20-l1": partial(field, 200, 20, 8, l1=1.0),
        "field-text": partial(text, 1.0, False, random_field=True),
        "field-grid": partial(case, "log_linear", "mrf-grid"),
        "pseudolikelihood": partial(case, "log_linear", "pl-grid"),
    },
    "unsupervised_margin": {
        "symbols-18": Symbols(3, 6).problem,
        "symbols-80": Symbols(10, 8).problem,
        "points-14": partial(case, "unsupervised_margin", "two-clusters"),
    },
}


@dataclass(frozen=True)
class Workload:
    """A problem by its family and name, to the levels, within so many MiB."""

    family: str
    name: str
    levels: tuple[str, ...] = LEVELS
    memory: int = MEMORY
    tol: float = 1e-6

    def build(self) -> Any:
        return PROBLEMS[self.family][self.name]()


# -- in the child ------------------------------------------------------------------------------------------------------


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """By level: processor seconds, those of the clock, gap and status of the fastest of the repeated runs."""
    if sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (workload.memory * 2**20, hard))
    levels: dict[str, dict[str, Any]] = {}
    run = _clarabel if solver == CLARABEL else _engine
    for level in workload.levels:
        spent, best = 0.0, math.inf
        for _ in range(REPEATS):
            found = run(workload.build(), solver, level, limit)
            spent += found["cpu"]
            if found["cpu"] < best:
                best, levels[level] = found["cpu"], found
            if spent > REPEAT:
                break
        yield {"levels": levels, "seconds": levels[level]["cpu"], "gap": levels[level]["gap"]}
        if levels[level]["status"] != "OPTIMAL":
            return


def _engine(problem: Any, solver: str, level: str, limit: float) -> dict[str, Any]:
    from convexstruct.core.driver import solve
    from convexstruct.core.registry import solvers

    cpu, wall = time.process_time(), time.perf_counter()
    solution = solve(problem, None if solver == DEFAULT else solvers()[solver](), level, time_limit=limit)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    told = {"cpu": cpu, "wall": wall, "gap": solution.gap if math.isfinite(solution.gap) else 1e300}
    return told | {"status": solution.status.name, "engine": solution.solver.partition(" ")[0]}


def formulations(family: str) -> list[Any]:
    """The entries that the family's systems name and that take a problem alone: those of polynomial size first, those
    that generate constraints after these, those written out last."""
    import convexstruct.models as models
    from convexstruct.core.registry import families

    names = dict.fromkeys(name for system in families()[family].systems for name in system.formulation)
    entries = [models.FORMULATIONS[f"{family}.{name}"] for name in names]
    alone = [entry for entry in entries if set(list(inspect.signature(entry.builder).parameters)[1:]) <= {"limit"}]
    return sorted(alone, key=lambda entry: (entry.enumerated, entry.name.endswith("cuts")))


def _clarabel(problem: Any, solver: str, level: str, limit: float) -> dict[str, Any]:
    """The first formulation whose answer certifies the level on the problem itself; else the last that was solved."""
    from convexstruct.core.certificates import certify
    from convexstruct.core.registry import family_of
    from convexstruct.tolerances import PROFILES

    told: dict[str, Any] = {"cpu": 0.0, "wall": 0.0, "gap": 1e300, "status": "NONE", "engine": "none"}
    for entry in formulations(family_of(problem).name):  # type: ignore[union-attr]
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            formulation = entry.builder(problem)
        except ValueError:
            continue  # too large to be written out, or of a kind that it does not state
        answer = formulation.solve(CLARABEL.upper(), level, time_limit=limit)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        told = {"cpu": cpu, "wall": wall, "gap": 1e300, "status": answer.status.name, "engine": entry.name}
        if answer.dual_point is None:
            continue
        try:
            certificate = certify(problem, answer.point, answer.dual_point)
        except ValueError:
            continue  # points of another problem: not this one's optimum
        gap = certificate.gap - certificate.rounding if certificate.gap > 0 else certificate.gap
        met = PROFILES[level].met_by(gap, certificate.infeasibility)
        told |= {"gap": min(certificate.gap, 1e300), "status": "OPTIMAL" if met else "INACCURATE"}
        if met or wall >= limit:
            return told
    return told


# -- in the parent -----------------------------------------------------------------------------------------------------


def engines(problem: Any) -> list[str]:
    """The engines of the registry that take the problem, but for the default with the options that it has."""
    from convexstruct.core.registry import check_family, choose, family_of

    family: Any = family_of(problem)
    chosen, found = choose(problem, "HIGH")[0], []  # type: ignore[arg-type]
    for kind in family.solvers:
        with suppress(ValueError):
            check_family(kind.__name__, inspect.unwrap(kind.iterate), problem)
            if chosen != kind():
                found.append(kind.__name__)
    return found


def seconds(run: Run, level: str) -> float:
    """Processor seconds to the level; inf where it was not reached."""
    told = run.levels.get(level, {})
    return float(told["cpu"]) if told.get("status") == "OPTIMAL" else math.inf


def row(runs: Sequence[Run], level: str) -> dict[str, Any]:
    """A row of the table: ``runs`` are the default's, the rivals', and Clarabel's last."""
    default, *rivals, reference = runs
    own, theirs = seconds(default, level), seconds(reference, level)
    fastest = min((default, *rivals), key=lambda run: seconds(run, level))
    best = seconds(fastest, level)
    allowed = SHORT_RATIO if own < SHORT else RATIO
    faults = []
    told = default.levels.get(level, {})
    if math.isinf(own):
        ended = f"not OPTIMAL in {default.limit:g} s"
        faults.append(ended if told.get("status") in (None, "TIME_LIMIT") else f"{told['status']}, {ended}")
    elif own > allowed * best:
        faults.append(f"{fastest.solver} is {own / best:.3g} times faster")
    if own > theirs:
        faults.append("slower than Clarabel")
    return {
        "family": default.workload.family, "problem": default.workload.name, "level": level, "default": own,
        "chosen": told.get("engine", default.trouble or "?"), "gap": told.get("gap"),
        "best": best, "best engine": told.get("engine", "?") if fastest is default else fastest.solver,
        "clarabel": theirs, "formulation": reference.levels.get(level, {}).get("engine", ""), "faults": faults,
        "short of the limit": math.isinf(own) and default.limit < LIMIT,
        "all": {run.solver: run.levels.get(level, {"trouble": run.trouble or "LOW was not reached"}) for run in runs},
    }  # fmt: skip


def times(value: float, limit: float = math.inf) -> str:
    if math.isfinite(value):
        return f"{value:.3g}"
    return f"> {limit:.3g}" if math.isfinite(limit) else "-"


def line(found: Mapping[str, Any]) -> str:
    """The row in Markdown; ratios are the default's seconds over those of the other."""
    own, best, theirs = found["default"], found["best"], found["clarabel"]
    last = found["all"][CLARABEL]
    formulation = f" ({found['formulation']})" if found["formulation"] not in ("", "none") else ""
    missed = "undecided" if found["short of the limit"] and len(found["faults"]) == 1 else "**MISSED**"
    cells = [
        found["problem"], found["level"], times(own, found["all"][DEFAULT].get("wall", math.inf)), found["chosen"],
        times(best), found["best engine"], times(own / best) if math.isfinite(own) else "-",
        times(theirs, last.get("cpu") or math.inf) + formulation,
        times(own / theirs) if math.isfinite(own) and math.isfinite(theirs) else "-",
        f"{missed}: {', '.join(found['faults'])}" if found["faults"] else "reached",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def study(family: str, name: str, levels: Sequence[str], limit: float, memory: int) -> list[dict[str, Any]]:
    """All runs of a problem; a row a level. A problem whose data are not here gives none."""
    workload = Workload(family, name, tuple(levels), memory)
    try:
        rivals = engines(workload.build())
    except ValueError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return []
    runs: list[Run] = []
    allowed = limit
    for solver in (DEFAULT, *rivals, CLARABEL):
        grace = allowed * (len(levels) - 1) + START
        runs.append(launch(__file__, workload, solver, allowed, grace))
        said = ", ".join(f"{seconds(runs[-1], level):.3g} s to {level}" for level in levels)
        print(f"{name}: {solver}: {runs[-1].trouble or said}", file=sys.stderr, flush=True)
        if solver == DEFAULT and math.isfinite(seconds(runs[0], levels[-1])):
            allowed = min(limit, RACE * runs[0].levels[levels[-1]]["wall"] + RACE_LEAST)
    return [row(runs, level) for level in levels]


def main(arguments: Sequence[str] | None = None) -> int:
    names = [name for problems in PROBLEMS.values() for name in problems]
    parser = argparse.ArgumentParser(description="The default beside every engine of its family and Clarabel.")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--family", nargs="+", choices=PROBLEMS, metavar="NAME", help=f"of: {', '.join(PROBLEMS)}")
    parser.add_argument("--level", nargs="+", choices=LEVELS, default=LEVELS, help="default both")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for a run; default {LIMIT:g}")
    parser.add_argument("--memory", type=int, default=MEMORY, help=f"MiB for a process; default {MEMORY}")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args(arguments)
    if not (chosen.limit > 0 and chosen.memory > 0):
        parser.error("--limit and --memory want positive numbers")
    head = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    console = new_console()
    console.print("\n".join(head), highlight=False, soft_wrap=True, markup=False)
    rows: list[dict[str, Any]] = []
    levels = [level for level in LEVELS if level in chosen.level]
    for family in chosen.family or PROBLEMS:
        for name in PROBLEMS[family]:
            if chosen.only and name not in chosen.only:
                continue
            found = study(family, name, levels, chosen.limit, chosen.memory)
            for each in found:
                console.print(line(each), highlight=False, soft_wrap=True, markup=False)
            rows += found
            if chosen.json:
                write(chosen.json, json.dumps(json.loads(json.dumps(rows), parse_constant=lambda _: None), indent=1))
            if chosen.markdown:
                write(chosen.markdown, "\n".join([*head, *map(line, rows)]))
    reached = sum(not each["faults"] for each in rows)
    console.print(f"{reached} of {len(rows)} reached; seconds are the processor's", highlight=False)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
