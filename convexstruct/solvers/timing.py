"""Seconds by name of subroutine, for the tables that split a method's time."""

from __future__ import annotations

import time


class Clock:
    """``with clock("master"): ...`` adds the seconds inside to ``clock.parts["master"]``."""

    def __init__(self, *names: str) -> None:
        self.parts = dict.fromkeys(names, 0.0)
        self._name = ""
        self._since = 0.0

    def __call__(self, name: str) -> Clock:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.parts[self._name] += time.perf_counter() - self._since
