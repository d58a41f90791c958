"""The cases of a family, the case of a given name, or all cases. Nothing here knows any family."""

from __future__ import annotations

from convexstruct.core import registry
from convexstruct.core.cases import Case
from convexstruct.validation.arguments import among, choice, flag, refuse


def families() -> tuple[str, ...]:
    """The families that have a system, in the order of the registry."""
    return tuple(registry.families())


def cases_for(family: str, *, quick: bool = False, open_only: bool = False) -> tuple[Case, ...]:
    """The cases of one family: parametrise your own tests with them.

        @pytest.mark.parametrize("case", cases_for("generative_margin", open_only=True), ids=repr)
        def test_my_solver(case):
            check(my_solver, case)

    Raises
    ------
    ValueError
        If there is no such family; the known ones are named.
    """
    choice("family", family, families())
    quick, open_only = flag("quick", quick), flag("open_only", open_only)
    known = registry.families()[family].cases
    return tuple(case for case in known if (case.quick or not quick) and (case.open or not open_only))


def select(on: str | None, *, quick: bool = False, open_only: bool = False) -> tuple[Case, ...]:
    """The cases of a family or of one of its systems, or the one case of that name, or all.

    Raises
    ------
    ValueError
        If ``on`` is none of these (the known names are given), or is one case that is too large for ``open_only``.
    """
    if on is not None and not isinstance(on, str):
        refuse("on", on, f"a family, the name of a case, or None; {among(on, families())}")
    every = tuple(case for family in families() for case in cases_for(family))
    systems = sorted({case.system for case in every})
    if on is None:
        chosen = every
    elif on in families():
        chosen = cases_for(on)
    elif on in systems:
        chosen = tuple(case for case in every if case.system == on)
    else:
        chosen = tuple(case for case in every if case.name == on)
        if not chosen:
            known = [*families(), *systems, *(case.name for case in every)]
            refuse("on", on, f"a family, a system or a case: {among(on, known)}")
        if open_only and not chosen[0].open:
            raise ValueError(f"case {on!r} is too large for a solver check")
        return chosen
    return tuple(case for case in chosen if (case.quick or not quick) and (case.open or not open_only))
