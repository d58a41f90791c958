"""``python -m convexstruct`` is the command ``convexstruct``."""

from __future__ import annotations

import sys

from convexstruct.cli import main

if __name__ == "__main__":
    sys.exit(main())
