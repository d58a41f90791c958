"""`Formulation` by itself, on programs of no family: an SDP, an entropy program."""

from __future__ import annotations

import html
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.generative_margin import cases as generative_margin
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.structured_svm import cases as structured_svm
from convexstruct.models import FORMULATIONS, Formulation, Reference, equation
from convexstruct.models.general_solvers import run
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.reference import SOLVERS, optimum


def largest_eigenvalue() -> Formulation:
    """min t with t I - A positive semidefinite: t = 3 for A = [[2, 1], [1, 2]]."""
    a = np.array([[2.0, 1.0], [1.0, 2.0]])
    t = cp.Variable(name="t")
    shift = cp.Parameter(name="shift", value=0.0)
    return Formulation(
        name="largest eigenvalue",
        objective=cp.Minimize(t),
        objective_latex=r"\min_t\quad t",
        objective_label="1",
        parts={
            "2": equation((t + shift) * np.eye(2) - a >> 0, r"t I - A \succeq 0"),
            "3": equation([t >= 0, t <= 10], r"0 \le t \le 10"),
        },
        variables={"t": t},
        parameters={"shift": shift},
        source="any book",
    )


def entropy() -> Formulation:
    """max - sum x ln x, 1'x = 1: ln 4 at the uniform distribution."""
    x = cp.Variable(4, name="x")
    return Formulation(
        name="entropy",
        objective=cp.Maximize(cp.sum(cp.entr(x))),
        objective_latex=r"\max_x\quad -x'\ln x",
        parts={"sum": equation(cp.sum(x) == 1, r"\mathbf{1}'x = 1")},
        variables={"x": x},
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_solvers_own_value_and_the_multipliers_are_read_by_equation(solver: str) -> None:
    formulation = largest_eigenvalue()
    said = optimum(formulation, solver)
    assert said.value == pytest.approx(3.0, rel=HIGH.gap)
    assert (said.formulation, said.solver) == ("largest eigenvalue", solver)
    assert said.seconds > 0
    # the multiplier of the cone is the projector on the leading eigenvector, (1, 1) / sqrt 2
    np.testing.assert_allclose(formulation.dual_values["2"], np.full((2, 2), 0.5), atol=10 * HIGH.feasibility)
    lower, upper = formulation.dual_values["3"]
    assert max(abs(lower), abs(upper)) < HIGH.feasibility


def test_a_changed_copy_leaves_the_original_as_it_was() -> None:
    formulation = largest_eigenvalue()
    t = formulation.variables["t"]
    without = formulation.without("2")
    above = formulation.adding("floor", t >= 4, latex=r"t \ge 4")
    highest = formulation.maximizing(t)
    lowest = formulation.minimizing(cp.square(t - 5), latex=r"(t - 5)^2")
    assert optimum(without).value == pytest.approx(0.0, abs=HIGH.feasibility)
    assert optimum(above).value == pytest.approx(4.0, rel=HIGH.gap)
    assert optimum(highest).value == pytest.approx(10.0, rel=HIGH.gap)
    assert optimum(lowest).value == pytest.approx(0.0, abs=HIGH.feasibility)
    assert math.isnan(formulation.value)
    assert optimum(formulation).value == formulation.value == pytest.approx(3.0, rel=HIGH.gap)
    assert list(formulation.equations) == ["2", "3"]
    assert [c.label for c in formulation.equations["3"]] == ["(3)", "(3)"]
    assert list(above.equations) == ["2", "3", "floor"]


def test_the_copy_shows_what_was_changed() -> None:
    formulation = largest_eigenvalue()
    t = formulation.variables["t"]
    assert r"\tag{1}" in formulation.latex
    assert r"t I - A \succeq 0 \tag{2}" in formulation.latex
    assert r"\tag{2}" not in formulation.without("2").latex
    assert r"t \ge 4 \tag{floor}" in formulation.adding("floor", t >= 4, latex=r"t \ge 4").latex
    assert re.search(r"\\texttt\{.*4\.0 <= t\} \\tag\{floor\}", formulation.adding("floor", t >= 4).latex)
    changed = formulation.maximizing(t, latex="t").latex
    assert r"\max\quad & t" in changed
    assert r"\tag{1}" not in changed
    assert r"\texttt{t}" in formulation.maximizing(t).latex


def test_what_comes_without_latex_is_shown_on_one_line_with_names_and_long_arrays_tamed() -> None:
    formulation = entropy()
    x = formulation.variables["x"]
    weights = np.linspace(-1.5, 2.5, x.size * 20).reshape(20, x.size)
    shown = formulation.adding("at_most 5%", weights @ x <= 1).latex
    line = next(line for line in shown.splitlines() if "tag{at" in line)
    assert r"\tag{at\_most 5\%}" in line  # an underscore in a tag is an error, and a bare % ends the line
    assert re.search(r"\[-1\.5\d* \.\.\. 2\.5\d*\] @ x", line)
    assert len(line) < 120


def test_the_html_holds_the_mathematics_sizes_and_cones() -> None:
    formulation = largest_eigenvalue()
    page = formulation._repr_html_()
    assert html.escape(formulation._repr_latex_(), quote=False) in page
    assert "&amp;" in page
    for name, count in {"variables": 1, "constraint rows": 6, "semidefinite cone rows": 3}.items():
        heads, cells = page.split("<tbody>")
        at = re.findall("<th>(.*?)</th>", heads).index(name)
        assert re.findall("<td>(.*?)</td>", cells)[at] == str(count)
    assert formulation.sizes.cones == {"non-negative": 2, "semidefinite": 3}
    assert "Formulation(largest eigenvalue: equations (2), (3); 1 variables)" in repr(formulation)
    bent = formulation.adding("bent", cp.square(formulation.variables["t"]) >= 1)
    assert "not convex" in bent._repr_html_()


def test_a_formulation_without_certificate_reports_the_value_and_claims_nothing() -> None:
    solution = entropy().solve()
    assert solution.status is Status.UNCERTIFIED
    assert solution.value == pytest.approx(math.log(4), rel=HIGH.gap)
    assert (solution.primal, solution.lower_bound, solution.gap) == (math.inf, -math.inf, math.inf)
    np.testing.assert_allclose(solution.point["x"], 0.25, atol=MID.feasibility)
    assert "optimal" in solution.message


@pytest.mark.parametrize("part", ["variables", "parameters", "equations", "dual_values"])
def test_a_name_that_is_missing_is_one_sentence_with_what_is_near(part: str) -> None:
    found = getattr(largest_eigenvalue(), part)
    what = "equation" if part in ("equations", "dual_values") else part.removesuffix("s")
    with pytest.raises(KeyError, match=f"{what} of largest eigenvalue is '33', wanted .*{next(iter(found))}"):
        found["33"]
    assert "33" not in found
    assert found.get("33") is None


def test_a_formulation_that_is_missing_is_one_sentence_with_what_is_near() -> None:
    with pytest.raises(KeyError, match=r"formulation is 'svm\.primal', wanted one of \d+ names, the nearest .*primal"):
        FORMULATIONS["svm.primal"]


def test_unbounded_and_infeasible_are_said() -> None:
    formulation = largest_eigenvalue()
    t = formulation.variables["t"]
    unbounded = formulation.without("2", "3").solve()
    infeasible = formulation.adding("above", t >= 11).solve()
    assert (unbounded.status, unbounded.value) == (Status.UNBOUNDED, -math.inf)
    assert (infeasible.status, infeasible.value) == (Status.INFEASIBLE, math.inf)
    assert not infeasible.point


def test_a_solver_that_cannot_solve_it_is_reported_not_raised() -> None:
    x = cp.Variable(name="x", integer=True)
    whole = Formulation("whole", cp.Minimize(x), r"\min\quad x", {"1": equation(x >= 0.5, "")}, {"x": x})
    said = whole.reference("CLARABEL")
    assert said.status == "solver_error"
    assert math.isnan(said.value)
    assert whole.solve("CLARABEL").status is Status.FAILED


def test_the_value_survives_a_variable_that_rounding_makes_negative() -> None:
    """CVXPY evaluates the objective at the rounded variables: entr(-1e-9) is -inf, the optimum is not."""
    formulation = entropy()
    x = formulation.variables["x"]
    pinned = formulation.adding("just below zero", x[:2] == -2 * ROUNDING)  # feasible to the solver's tolerance
    said = optimum(pinned)
    assert x.value.min() < 0
    assert pinned.problem.value == -math.inf
    assert said.value == pytest.approx(math.log(2), rel=HIGH.gap)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.without("7"), "equation is '7', wanted one of 2, 3 of"),
        (lambda f: f.adding("2", f.variables["t"] >= 1), r"already has an equation \(2\)"),
        (lambda f: f.reference("CLARA"), "solver is 'CLARA', wanted one of .*CLARABEL.* that is installed"),
        (lambda f: f.adding("new", 3), "constraint is 3, wanted a CVXPY constraint"),
        (lambda f: f.adding("new", []), "constraint is an empty list, wanted a CVXPY constraint"),
        (lambda f: f.adding(["new"], f.variables["t"] >= 1), "name is .*, wanted a text"),
        (lambda f: f.adding("new", f.variables["t"] >= 1, 3), "latex is 3, wanted a text"),
        (lambda f: f.minimizing("t"), "expression is 't', wanted a finite number"),
        (lambda f: f.maximizing(np.ones(2)), "expression is an array of shape"),
        (lambda f: f.minimizing(cp.Variable(2)), r"expression has shape \(2,\), wanted one real number"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]  # lambdas
    with pytest.raises(ValueError, match=message):
        change(largest_eigenvalue())


# -- a reference is judged by what its answer certifies ----------------------------------------------------------------


def hinge() -> Formulation:
    made = RegularizedRisk.binary(np.array([[1.0, 0.5], [-0.5, 1.0], [0.2, -1.0], [-1.0, 0.3]]), [1, -1, 1, -1], 0.1)
    stated: Formulation = FORMULATIONS["regularized_risk.primal"].builder(made)
    return stated


def lie(monkeypatch: pytest.MonkeyPatch, change: Callable[[cp.Problem], None]) -> None:
    """Every solver solves, and then says something else."""

    def lying(problem: cp.Problem, solver: str, settings: Mapping[str, Any]) -> None:
        run(problem, solver, settings)
        change(problem)

    monkeypatch.setattr("convexstruct.models.formulation.run", lying)


def claim(problem: cp.Problem) -> None:
    """Clarabel 0.9.0 said "optimal", 11.70, where the optimum was 66.68."""
    problem.solution.opt_val *= 0.2


def doubt(problem: cp.Problem) -> None:
    problem._status = "optimal_inaccurate"
    claim(problem)


def worsen(problem: cp.Problem) -> None:
    for variable in problem.variables():
        variable.save_value(1.1 * variable.value)


def test_an_honest_reference_carries_the_bracket_that_its_answer_certifies() -> None:
    said = hinge().reference()
    assert said.accurate
    assert said.certified
    assert said.upper_bound - said.lower_bound <= HIGH.gap * said.upper_bound
    assert said.lower_bound - ROUNDING <= said.value <= said.upper_bound + HIGH.gap
    assert (said.trouble(), said.best) == ("", said.value)


@pytest.mark.parametrize(
    ("change", "trouble", "status"),
    [
        (claim, r"primal by CLARABEL says optimal at .*, outside the bracket \[", Status.INACCURATE),
        (worsen, "certifies only a gap of", Status.INACCURATE),
        (doubt, "^$", Status.OPTIMAL),  # where the status is not "optimal" the certificate alone counts
    ],
)
def test_a_reference_is_judged_by_what_its_answer_certifies(
    change: Callable[[cp.Problem], None], trouble: str, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = hinge().reference()
    lie(monkeypatch, change)
    said = hinge().reference()
    assert re.search(trouble, said.trouble())
    assert said.accurate is (status is Status.OPTIMAL)
    assert said.lower_bound <= right.upper_bound
    assert change is not doubt or said.lower_bound <= said.best <= said.upper_bound != said.value
    assert hinge().solve().status is status


def test_a_claim_must_be_near_its_bracket_however_small_the_optimum_is() -> None:
    upper = 1e-3 * (1 + 1e-7)
    small = Reference("small", "CLARABEL", "optimal", upper * (1 + 5e-7), 0.1, 1e-3, upper, 1e-7, True, 1e-11)
    assert small.accurate
    assert not replace(small, value=upper * (1 + 5e-6)).accurate
    nothing = Reference("nothing", "CLARABEL", "optimal", 3e-9, 0.1, 0.0, 0.0, 0.0, True, 1e-8)
    assert nothing.accurate
    assert not replace(nothing, value=3e-8).accurate


def test_without_a_certificate_the_solvers_word_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = hinge().minimizing(cp.Constant(1.0))
    assert changed.reference().accurate
    assert not changed.reference().certified
    lie(monkeypatch, doubt)
    assert "there is no certificate" in changed.reference().trouble()


@pytest.mark.parametrize("name", ["generative_margin.n_slack", "structured_svm.n_slack_cuts"])
def test_constraint_generation_is_judged_by_the_bracket_of_its_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = {"generative_margin": generative_margin.enumerated, "structured_svm": structured_svm.enumerated}
    problem = make[name.split(".")[0]](0).problem
    said = FORMULATIONS[name].builder(problem).reference()
    assert said.accurate
    assert said.certified
    assert said.upper_bound - said.lower_bound <= HIGH.gap * said.upper_bound
    lie(monkeypatch, claim)
    lied = FORMULATIONS[name].builder(problem).reference()
    assert not lied.accurate
    assert "outside the bracket" in lied.trouble()


def test_every_entry_of_the_list_says_where_it_comes_from() -> None:
    for name, entry in FORMULATIONS.items():
        assert name == f"{entry.family}.{entry.name}"
        assert entry.title
        assert entry.paper.startswith(("paper ", "Yu, Joachims: "))
        assert entry.equations


@pytest.fixture
def keyboard() -> Iterator[threading.Event]:
    """Send SIGINT again and again, from when the event is set until SCS has answered; Python itself ignores it."""
    begun, over, main = threading.Event(), threading.Event(), threading.get_ident()

    def press() -> None:
        begun.wait()
        while not over.wait(0.01):
            signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    presses = threading.Thread(target=press)
    presses.start()
    yield begun
    over.set()
    begun.set()
    presses.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ask", ["solve", "reference"])
def test_ctrl_c_reaches_the_user_though_scs_takes_it(ask: str, keyboard: threading.Event) -> None:
    rng = np.random.default_rng(0)
    problem = RegularizedRisk.binary(rng.normal(size=(30, 5)), rng.integers(2, size=30), 1e-3)
    formulation = FORMULATIONS["regularized_risk.primal"].builder(problem)
    keyboard.set()
    with pytest.raises(KeyboardInterrupt):  # no accuracy ends this run
        getattr(formulation, ask)("SCS", eps_abs=1e-300, eps_rel=1e-300, max_iters=10**9)
