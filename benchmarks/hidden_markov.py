"""Workload `hidden_markov`: Baum-Welch and Viterbi beside hmmlearn's CategoricalHMM, both of its implementations.

    python benchmarks/hidden_markov.py [--quick] [--only NAME ...] [--json FILE]

Every workload is a fresh process with one thread. Both sides start from the same model, make the same number of EM
iterations, and must end at the same likelihood to nine digits; both decode with that model, to the same score. Times
are processor seconds, the best of several calls in turn. The data are drawn from a hidden Markov model of
Dirichlet(1/2) transitions. In "slow" a state is left once in a thousand steps and shows its symbols hardly more often
than the others do: there messages depend for long on where they began, EM does not process long sequences in pieces,
and Viterbi joins its pieces by matrices, or, of two states, by clipped maps.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Launcher, Session, child, launch, opened, options
from benchmarks.tables import new_table

# NumPy, hmmlearn and the package are imported in the child: the interpreter's threads are set before.
if TYPE_CHECKING:
    import numpy as np

    from convexstruct.inference.hidden_markov import HiddenMarkovModels

#: EM iterations of one call.
ITERATIONS = 5
#: Calls of which the best counts, and seconds after which no other is begun.
CALLS, SPENT = 5, 20.0
#: Likelihoods and scores agree to this, relative.
AGREES = 1e-9
#: Goals: times as fast as `scaling` and `log` with many sequences, and as `scaling` and Viterbi with few long ones.
MANY_SCALING, MANY_LOG, FEW_SCALING, VITERBI = 5.0, 30.0, 1.0, 1.0
#: What bounds each where it is missed, as it was measured.
EM = "half of an iteration is forward-backward, a product and six passes over the states of each position"
BOUNDS = {
    "Viterbi": "NumPy's two passes over each pair of labels (sum, maximum) take half to three quarters of the time of"
    " hmmlearn's loop; the rest (messages mended at the cuts, labels read back) is 60% of ours with 5 states, a third"
    " with 20",
    "`scaling`": EM,
    "`log`": EM,
}
#: Seconds for everything.
BUDGET, QUICK_BUDGET = 600.0, 55.0
#: When each stops.
RULES = dict.fromkeys(("ours", "hmmlearn"), f"stops after {ITERATIONS} EM iterations; Viterbi is exact")
BOTH = "ours, hmmlearn"
SECTIONS = ("many", "few", "slow")
START = functools.partial(launch, __file__)


@dataclass(frozen=True)
class Workload:
    """``n`` sequences of ``length`` steps from ``states`` states that show ``symbols``. section : whose goals count."""

    section: str
    n: int
    length: int
    states: int
    symbols: int

    @property
    def name(self) -> str:
        return f"{self.section} {self.n}x{self.length}, {self.states} states, {self.symbols} symbols"

    def sequences(self) -> list[np.ndarray[Any, Any]]:
        import numpy as np

        from convexstruct.inference.hidden_markov import HiddenMarkovModels

        rng = np.random.default_rng([95, self.n, self.states])
        transition = rng.dirichlet(np.full(self.states, 0.5), size=self.states)
        emission = rng.dirichlet(np.full(self.symbols, 0.3), size=self.states)
        if self.section == "slow":
            transition = 0.999 * np.eye(self.states) + 0.001 * transition
            emission = 0.1 * emission + 0.9 / self.symbols
        model = HiddenMarkovModels.read(np.full(self.states, 1.0 / self.states), transition, emission)
        return drawn(model, self.n, self.length, rng)


MANY = [Workload("many", 1000, 50, s, m) for s, m in ((2, 5), (5, 10), (10, 20), (20, 50), (50, 100))]
FEW = [Workload("few", 10, 10_000, s, m) for s, m in ((2, 5), (5, 10), (10, 20), (20, 50), (50, 100))]
SLOW = [Workload("slow", 10, 10_000, s, m) for s, m in ((2, 5), (10, 20))]
SMALL = [Workload("many", 1000, 20, 5, 10), Workload("few", 10, 2000, 5, 10)]


# -- in the child ------------------------------------------------------------------------------------------------------


def drawn(model: HiddenMarkovModels, n: int, length: int, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """``n`` sequences of symbols, all of one length."""
    import numpy as np

    reached, shown = (table[0].cumsum(axis=-1) for table in (model.transition, model.emission[:, 0]))
    state = (rng.random(n)[:, None] > model.initial[0].cumsum()).sum(axis=1)
    symbols = np.empty((n, length), dtype=np.int64)
    for t in range(length):
        state = np.minimum(state, model.n_states - 1)
        symbols[:, t] = np.minimum((rng.random(n)[:, None] > shown[state]).sum(axis=1), shown.shape[1] - 1)
        state = (rng.random(n)[:, None] > reached[state]).sum(axis=1)
    return list(symbols)


def best_of(calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """The least processor seconds of each call, made in turn, and what the last of each returned."""
    least, found = dict.fromkeys(calls, float("inf")), {}
    begin = time.process_time()
    for _ in range(CALLS):
        for name, call in calls.items():
            since = time.process_time()
            found[name] = call()
            least[name] = min(least[name], time.process_time() - since)
        if time.process_time() - begin > SPENT:
            break
    return least, found


def measure(workload: Workload, solver: str, limit: float) -> Iterator[dict[str, Any]]:
    """``levels``: seconds of an EM iteration and of decoding all sequences, by name; "apart": how far the ends are from
    equal. The solvers take turns in one process, each for `SPENT` seconds at most."""
    import logging

    import numpy as np
    from hmmlearn.hmm import CategoricalHMM

    from convexstruct.inference.baum_welch import baum_welch
    from convexstruct.inference.hidden_markov import HiddenMarkovModels, Observations, random_models

    logging.disable(logging.CRITICAL)  # hmmlearn warns that likelihoods hardly rise any more
    sequences = workload.sequences()
    start = random_models(1, workload.states, workload.symbols, seed=1)
    stacked, lengths = np.concatenate(sequences)[:, None], [len(one) for one in sequences]
    observed = Observations.read(sequences, workload.symbols)

    def peer(implementation: str) -> Callable[[], Any]:
        def fit() -> Any:
            model = CategoricalHMM(
                workload.states, n_features=workload.symbols, n_iter=ITERATIONS, tol=-np.inf, init_params="",
                implementation=implementation,
            )  # fmt: skip
            model.startprob_, model.transmat_ = start.initial[0].copy(), start.transition[0].copy()
            model.emissionprob_ = start.emission[0, 0].copy()
            return model.fit(stacked, lengths)

        return fit

    def ours() -> Any:
        return baum_welch(observed, start, tol=0.0, max_iterations=ITERATIONS)

    seconds, found = best_of({"ours": ours, "scaling": peer("scaling"), "log": peer("log")})
    theirs = found["scaling"]
    apart = abs(theirs.score(stacked, lengths) / found["ours"].log_likelihood[0] - 1.0)
    model = HiddenMarkovModels.read(theirs.startprob_, theirs.transmat_, theirs.emissionprob_)
    decoding, labels = best_of(
        {"ours": lambda: model.decode(observed)[0], "scaling": lambda: theirs.decode(stacked, lengths)}
    )
    flat = labels["ours"]
    first = np.zeros(len(flat), dtype=bool)
    first[observed.chains.first] = True
    score = np.log(theirs.emissionprob_[flat, stacked[:, 0]]).sum() + np.log(theirs.startprob_[flat[first]]).sum()
    score += np.log(theirs.transmat_[flat[:-1], flat[1:]])[~first[1:]].sum()
    apart = max(apart, abs(labels["scaling"][0] / score - 1.0))
    told = {name: value / ITERATIONS for name, value in seconds.items()}
    told |= {"viterbi": decoding["ours"], "their viterbi": decoding["scaling"], "apart": float(apart)}
    yield {"levels": {BOTH: told}, "seconds": told["ours"]}


# -- the tables --------------------------------------------------------------------------------------------------------


def verdicts(session: Session, workload: Workload, line: dict[str, float]) -> str:
    """The goals of a workload, reached or missed; none for EM in the section "slow"."""
    scaling, log = line["scaling"] / line["ours"], line["log"] / line["ours"]
    viterbi = line["their viterbi"] / line["viterbi"]
    wanted = [("Viterbi", viterbi, VITERBI)]
    if workload.section == "many":
        wanted += [("`scaling`", scaling, MANY_SCALING), ("`log`", log, MANY_LOG)]
    if workload.section == "few":
        wanted += [("`scaling`", scaling, FEW_SCALING)]
    words = [session.judge(workload, "equal", line["apart"] <= AGREES, apart=line["apart"])]
    for name, ratio, least in wanted:
        goal = f"{least:g} times as fast as hmmlearn, {name}"
        words.append(session.judge(workload, goal, ratio >= least, f"{name} {least:g}x", BOUNDS[name], ratio=ratio))
    return ", ".join(words)


def main(arguments: Sequence[str] | None = None, launcher: Launcher = START) -> int:
    chosen = options("Baum-Welch and Viterbi beside hmmlearn.", SECTIONS, BUDGET, QUICK_BUDGET, arguments)
    head = ("workload", "ms", "scaling", "log", "Viterbi ms", "hmmlearn's", "goal")
    table = new_table("Milliseconds of an EM iteration, and of decoding; hmmlearn's as multiples", *head)
    wanted = [work for work in (SMALL if chosen.quick else (*MANY, *FEW, *SLOW))
              if not chosen.only or work.section in chosen.only]  # fmt: skip
    with opened(chosen, launcher, {}, BUDGET, ("hmmlearn",), BUDGET, rules=RULES, wall=False) as (session, console):
        for workload in wanted if session.has("hmmlearn", "hmmlearn") else ():
            run = session(workload.section, workload, BOTH)
            line = run.levels.get(BOTH)
            if line is None:
                session.without(workload.name, run.trouble)
                continue
            table.add_row(
                workload.name, f"{1e3 * line['ours']:.1f}", f"{line['scaling'] / line['ours']:.1f}x",
                f"{line['log'] / line['ours']:.1f}x", f"{1e3 * line['viterbi']:.1f}",
                f"{line['their viterbi'] / line['viterbi']:.2f}x", verdicts(session, workload, line),
            )  # fmt: skip
        console.print(table)
    return 0


if __name__ == "__main__":
    child(Workload, measure)
    sys.exit(main())
