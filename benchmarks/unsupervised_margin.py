"""Workload `unsupervised_margin`: ADMM on the reduced SDP beside Clarabel and SCS on the same form; growth.

    python benchmarks/unsupervised_margin.py [--only WORKLOAD ...] [--solvers NAME ...] [--seconds LIMIT]

Sequences of symbols from a hidden Markov model that changes its state with probability `CHANGE` and shows it with the
same, as the synthetic sets of paper 3. All runs are made here, one after the other, with one thread. Times are
processor seconds: ADMM's until its own proved bracket is within `GAP`, a reference's for one solve, compiled before,
after which its answer is certified as any other is. SCS is asked for `SCS_ACCURACY`, about what gives the same gap.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    from convexstruct.families.unsupervised_margin import UnsupervisedMargin

ADMM, CLARABEL, SCS = "ADMM", "CLARABEL", "SCS"
#: Sequences, their length, labels; the rows of the paper's sets come first. References are run on the first two alone.
WORKLOADS = {"80/70": (10, 8, 2), "80/70, 3 labels": (10, 8, 3), "160/150": (10, 16, 2), "400/380": (20, 20, 2)}
WITH_REFERENCES = ("80/70", "80/70, 3 labels")
#: Probability that the state changes, and that it is shown.
CHANGE = 0.95
#: The relative gap that is wanted, the residual after repair, and SCS's tolerance, absolute and relative.
GAP, FEASIBLE, SCS_ACCURACY = 1e-4, 1e-4, 1e-5
#: How many times faster than either reference ADMM is wanted to be.
GOALS = {CLARABEL: 40.0, SCS: 2.0}


def instance(name: str, seed: int = 0) -> UnsupervisedMargin:
    """The workload's problem."""
    import numpy as np

    from convexstruct.families.unsupervised_margin import UnsupervisedMargin

    n, length, kappa = WORKLOADS[name]
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(n):
        state = int(rng.integers(kappa))
        row = []
        for _ in range(length):
            row.append(state if rng.random() < CHANGE else (state + int(rng.integers(1, kappa))) % kappa)
            state = (state + int(rng.integers(1, kappa))) % kappa if rng.random() < CHANGE else state
        seen.append(row)
    return UnsupervisedMargin.read(seen, kappa, beta=0.01, label_balance=0.1, pair_balance=0.25, n_symbols=kappa)


def run_admm(problem: UnsupervisedMargin, limit: float) -> tuple[float, Any, str]:
    """(processor seconds, certificate, how it went)."""
    from convexstruct.core.certificates import certify
    from convexstruct.core.driver import solve
    from convexstruct.families.unsupervised_margin import ReducedADMM

    begin = time.process_time()
    solution = solve(problem, ReducedADMM(), tol=GAP, time_limit=limit)
    seconds = time.process_time() - begin
    return seconds, certify(problem, solution.point, solution.dual_point), f"{solution.trace.oracle_calls[-1]} steps"


def run_reference(problem: UnsupervisedMargin, solver: str) -> tuple[float, Any, str]:
    """(processor seconds of the solve alone, certificate, status)."""
    from convexstruct.core.certificates import certify
    from convexstruct.models import FORMULATIONS

    formulation = FORMULATIONS["unsupervised_margin.reduced"].builder(problem)
    inner = formulation.problem
    inner.get_problem_data(solver)  # compiled, and cached
    given = {"eps_abs": SCS_ACCURACY, "eps_rel": SCS_ACCURACY, "max_iters": 200_000} if solver == SCS else {}
    begin = time.process_time()
    inner.solve(solver=solver, **given)
    seconds = time.process_time() - begin
    found = formulation.recover(formulation)
    return seconds, certify(problem, found.point, found.dual_point), str(inner.status)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="ADMM on the reduced SDP beside Clarabel and SCS.")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--solvers", nargs="+", choices=(ADMM, CLARABEL, SCS), default=(ADMM, CLARABEL, SCS))
    parser.add_argument("--seconds", type=float, default=120.0, help="of ADMM on one workload (default 120)")
    chosen = parser.parse_args(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    good = True
    print(f"{'workload':<18}{'solver':<10}{'seconds':>9}{'gap':>10}{'residual':>10}{'MB':>7}  {'':<14}times ADMM's")
    for name in chosen.only or WORKLOADS:
        problem, own = instance(name), 0.0
        for solver in chosen.solvers:
            if solver != ADMM and name not in WITH_REFERENCES:
                continue
            made = run_admm(problem, chosen.seconds) if solver == ADMM else run_reference(problem, solver)
            seconds, certificate, told = made
            if solver == ADMM:
                own = seconds
                good = good and certificate.gap <= GAP and certificate.infeasibility <= FEASIBLE
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            ratio = f"{seconds / own:.1f} (goal {GOALS[solver]:g})" if own and solver in GOALS else ""
            print(
                f"{name:<18}{solver:<10}{seconds:>9.2f}{certificate.gap:>10.1e}{certificate.infeasibility:>10.1e}"
                f"{memory:>7.0f}  {told:<14}{ratio}",
                flush=True,
            )
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
