"""What the papers are about: a folder a family, the same everywhere: problem, solvers, cases, experiments.

A family imports the ground, the machinery, and the public names of another family where the mathematics says so, never
its inside. Each declares itself to `convexstruct.core.registry`; `discover` imports every folder that is here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def discover() -> None:
    """Import every family's folder, so that it registers itself; once."""
    for entry in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{entry.name}")
