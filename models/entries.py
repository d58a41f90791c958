"""The list of formulations: each builder is stated with its title and its source, and so is in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from convexstruct.core.registry import Builder, one_family


@dataclass(frozen=True)
class Entry:
    """An entry of `FORMULATIONS`: how to build a formulation, and where it comes from.

    name, family : "compact_dual" of "generative_margin"; `FORMULATIONS` knows it as "generative_margin.compact_dual".
    title : one line of text. paper, equations : the source, as text.
    optimum : entries of a family with the same ``optimum`` have one optimal value ("p*"; the proximal ones "p_n*").
    enumerated : whether it writes out all assignments, and so is for small instances only.
    builder : problem -> `Formulation`, or an object with the same ``reference`` and ``solve``.
    """

    name: str
    family: str
    title: str
    paper: str
    equations: str
    optimum: str
    enumerated: bool
    builder: Callable[..., Any]


#: Every formulation whose file has been imported, in that order.
ENTRIES: list[Entry] = []


def stated(
    title: str, paper: str, equations: str, *, optimum: str = "p*", enumerated: bool = False
) -> Callable[[Builder], Builder]:
    """Put a builder into `FORMULATIONS` under its own name and that of its family's folder, with the checks of
    `one_family`. The arguments are fields of `Entry`."""

    def listed(builder: Builder) -> Builder:
        checked, family = one_family(builder), builder.__module__.split(".")[2]
        ENTRIES.append(Entry(builder.__name__, family, title, paper, equations, optimum, enumerated, checked))
        return checked

    return listed
