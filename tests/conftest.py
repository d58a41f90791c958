"""What hypothesis does on any machine: a loaded one takes its time, and no test fails for that. A test that wants more
than thirty examples says so.

And where bytecode goes if the environment lets none into the tree: every worker, and every process that a test starts,
would compile the whole package again.
"""

import gc
import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

if sys.dont_write_bytecode:
    kept = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("patient", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


#: Until all tests are collected, hardly anything is garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """The modules and the thousands of tests live to the end: no collection of garbage has to look at them again."""
    gc.freeze()
    gc.enable()
