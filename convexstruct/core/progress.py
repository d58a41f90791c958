"""Progress of long runs, shown on standard error, so that standard output holds the result alone."""

from __future__ import annotations

import sys
from typing import Protocol

from convexstruct.core.certificates import relative_gap
from convexstruct.tolerances import Profile


class Progress(Protocol):
    """The interface of an object that shows progress: `solve` calls ``update`` each round and ``close`` once."""

    def update(self, iteration: int, primal: float, lower_bound: float, seconds: float) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, iteration: int, primal: float, lower_bound: float, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


class Bar:
    """One line on standard error: rounds, seconds, the solver's own bounds and gap; refreshed four times a second."""

    def __init__(self, name: str, wanted: Profile, least: float = 0.0) -> None:
        from rich.console import Console
        from rich.live import Live

        self._name = name
        self._wanted = wanted
        self._least = least
        self._live = Live(console=Console(file=sys.stderr), refresh_per_second=4, transient=True)
        self._live.start()

    def update(self, iteration: int, primal: float, lower_bound: float, seconds: float) -> None:
        from rich.text import Text

        gap = relative_gap(primal, lower_bound, self._least)
        line = f"{self._name}  round {iteration}  {seconds:.1f} s  {lower_bound:.8g} <= optimum <= {primal:.8g}"
        self._live.update(Text(f"{line}  gap {gap:.1e} (wanted {self._wanted.gap:.0e})"))

    def close(self) -> None:
        self._live.stop()


def reporter(progress: Progress | bool | None, name: str, wanted: Profile, least: float = 0.0) -> Progress:
    """The object that shows progress: the caller's own, a `Bar`, or `Silent`; ``least`` as in `relative_gap`."""
    if progress is None or progress is False:
        return Silent()
    return Bar(name, wanted, least) if progress is True else progress
