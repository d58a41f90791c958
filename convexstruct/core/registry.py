"""The registry of families: the driver and the command line read from it what each family declares.

A family's folder ends its ``__init__`` with

    FAMILY = register(Family(__name__, title=..., problems=(...), solvers=(...), best=..., systems=(...)))

and no other file lists it. It does so when it is first imported, as the class of any of its problems has been;
`families`, and what stands on it, imports them all. Its cases (``cases.py``), stored optima (``optima.json``) and
experiments (``experiments/``) are found in its folder, and imported when they are first used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from convexstruct.core.cases import Case
from convexstruct.core.certificates import check_problem
from convexstruct.core.experiment import Experiment
from convexstruct.core.iterate import Iterate, Solver
from convexstruct.core.slips import Slip
from convexstruct.tolerances import Profile, profile
from convexstruct.validation.arguments import choice, cut, described, refuse, sentence, whole

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class System:
    """One system of a paper.

    name : the name used in texts. paper, equations : where it is defined. formulation : names of its formulations in
    ``convexstruct.models.<family>``. experiments : names that ``convexstruct reproduce`` takes. problems : the classes
    of its problems; empty means all of the family's. solvers : class names; empty means those of the family that take
    one of ``problems``. caution : what no paper tells: how the system fails, in a sentence or two, for its page of the
    site. family : filled in by the `Family` that declares it.
    """

    name: str
    paper: str
    equations: str
    formulation: tuple[str, ...]
    experiments: tuple[str, ...] = ()
    problems: tuple[type, ...] = ()
    solvers: tuple[str, ...] = ()
    caution: str = ""
    family: str = ""

    def row(self) -> dict[str, Any]:
        """The system as a JSON object."""
        return {
            "name": self.name,
            "family": self.family,
            "paper": self.paper,
            "equations": self.equations,
            "formulation": ", ".join(f"{self.family}.{name}" for name in self.formulation),
            "solvers": list(self.solvers),
            "experiments": list(self.experiments),
        }


@dataclass(frozen=True, eq=False)
class Family:
    """One family of problems: its problem classes, its solvers, and the systems of the papers that it covers.

    package : the ``__name__`` of the family's folder; its last part is the family's name.
    title : one line for readers. problems : the problem classes. solvers : the solver classes, each of which takes
    problems of this family. best : (problem, accuracy) -> the best solver known for it, and a phrase with the reason.
    systems : the systems of the papers that the family covers.
    """

    package: str
    title: str
    problems: tuple[type, ...]
    solvers: tuple[type, ...]
    best: Callable[[Any, Profile], tuple[Solver, str]]
    systems: tuple[System, ...]

    def __post_init__(self) -> None:
        filled = (replace(one, family=self.name, solvers=one.solvers or self._taking(one)) for one in self.systems)
        object.__setattr__(self, "systems", tuple(filled))

    def _taking(self, system: System) -> tuple[str, ...]:
        """The solvers whose ``iterate`` takes a problem of the system, by the annotation that `check_family` reads."""
        problems = system.problems or self.problems
        wanted = {each.__name__ for problem in problems for each in problem.__mro__}
        return tuple(each.__name__ for each in self.solvers if wanted & set(_classes(cast(Any, each).iterate)))

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def folder(self) -> Path:
        """Where the family's files are; its stored optima are ``optima.json`` there."""
        file = importlib.import_module(self.package).__file__
        assert file is not None, "a family is a folder with an __init__.py"
        return Path(file).parent

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The cases of ``cases.py``; none where there is no such file."""
        if not (self.folder / "cases.py").exists():
            return ()
        module = importlib.import_module(f"{self.package}.cases")
        return tuple(replace(case, family=self.name, paper=self.system(case.system).paper) for case in module.CASES)

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        """By name: every module in ``experiments/`` with a NAME."""
        found = {}
        for entry in pkgutil.iter_modules([str(self.folder / "experiments")]):
            module = importlib.import_module(f"{self.package}.experiments.{entry.name}")
            if hasattr(module, "NAME"):
                found[module.NAME] = Experiment.of(module, self.name)
        return found

    def slips(self, problem: Any) -> Iterator[Slip]:
        """The mistakes that ``slips.py`` of the family lists for a problem; none where there is no such file."""
        if (self.folder / "slips.py").exists():
            yield from importlib.import_module(f"{self.package}.slips").slips(problem)

    def system(self, name: str) -> System:
        """The system called ``name``.

        Raises
        ------
        ValueError
            If the family declares none of that name.
        """
        known = {system.name: system for system in self.systems}
        return known[choice("name", name, known, f"of the family {self.name}")]


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Add a family to the registry; a second one of the same name replaces the first.

    From then on the ``iterate`` of each of its solvers raises ValueError for problems of classes that it does not take
    (`check_family`).
    """
    if not isinstance(family, Family):
        refuse("family", family, "a Family")
    _FAMILIES[family.name] = family
    for solver in family.solvers:
        _guard(solver)
    return family


def _guard(solver: Any) -> None:
    """Put `check_family` before a solver's ``iterate``, once."""
    iterate = solver.iterate
    if getattr(iterate, "checks_family", False):
        return

    @functools.wraps(iterate)
    def checked(self: Any, problem: Any, start: Any = None) -> Iterator[Iterate]:
        check_family(type(self).__name__, iterate, problem)
        found: Iterator[Iterate] = iterate(self, problem, start)
        return found

    checked.checks_family = True  # type: ignore[attr-defined]
    solver.iterate = checked


def check_family(who: str, function: Callable[..., Any], problem: Any) -> None:
    """ValueError unless ``problem`` is of a class named in the annotation of ``function``'s argument ``problem``: one
    class, or several of a family, "A | B".

    A function whose annotation names another class, or none, takes any problem and is not checked.
    """
    classes = _classes(function)
    of = {each.__name__: family.name for family in _FAMILIES.values() for each in family.problems}
    if not set(classes) <= set(of) or set(classes) & {each.__name__ for each in type(problem).__mro__}:
        return
    wanted = " or ".join(classes)
    family = getattr(problem, "family", None) if not isinstance(problem, type) else None
    came = f" of the family {cut(family, 40)}" if isinstance(family, str) else ""
    raise sentence(
        f"problem is {described(problem)}{came}, wanted a {wanted}: {who} is for the family {of[classes[0]]}"
    )


def _classes(function: Callable[..., Any]) -> list[str]:
    """The classes in the annotation of the argument ``problem``, by name; "Any" where there is none."""
    named = getattr(function, "__annotations__", {}).get("problem", "Any")
    return (named if isinstance(named, str) else getattr(named, "__name__", str(named))).split(" | ")


def one_family(builder: Builder) -> Builder:
    """``builder`` with checks: ValueError for problems of another class than its annotation names, and for a ``limit``
    that is not a whole number >= 1."""
    signature = inspect.signature(builder)

    @functools.wraps(builder)
    def build(problem: Any, *args: Any, **options: Any) -> Any:
        check_family(builder.__name__, builder, problem)
        given = signature.bind(problem, *args, **options).arguments
        if "limit" in given:
            whole("limit", given["limit"], least=1)
        return builder(problem, *args, **options)

    return cast(Builder, build)


def families() -> Mapping[str, Family]:
    """Every family, by name, in alphabetical order: those of ``convexstruct.families``, and who else registered."""
    importlib.import_module("convexstruct.families").discover()
    return {name: _FAMILIES[name] for name in sorted(_FAMILIES)}


def systems() -> tuple[System, ...]:
    """The systems of all families."""
    return tuple(system for family in families().values() for system in family.systems)


def solvers() -> dict[str, type]:
    """The solver classes of all families, by class name."""
    return {solver.__name__: solver for family in families().values() for solver in family.solvers}


def experiments() -> dict[str, Experiment]:
    """The experiments of all families, by the name that ``convexstruct reproduce`` takes."""
    return {name: one for family in families().values() for name, one in family.experiments.items()}


def family_of(problem: Any) -> Family | None:
    """The family that declares the class of ``problem``; None if none does."""
    for family in _FAMILIES.values():
        if isinstance(problem, family.problems):
            return family
    return None


def choose(problem: Any, wanted: Profile) -> tuple[Solver, str]:
    """The best solver known for ``problem`` at this accuracy, and a phrase with the reason.

    Raises
    ------
    ValueError
        If none is known for the problem's family.
    """
    check_problem(problem)
    family = family_of(problem)
    if family is None:
        raise sentence(f"no solver is known for the family {described(problem.family)}; pass solver=")
    return family.best(problem, profile(wanted))
