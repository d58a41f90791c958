"""The arguments of ``convexstruct``, and nothing that is done with them.

Completion for bash, zsh and fish is made of this parser by shtab: ``shtab --shell=bash convexstruct.cli.parser``.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from convexstruct.report import release
from convexstruct.streams import mute
from convexstruct.validation.arguments import sentence


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise sentence(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and version; argparse itself keeps silent where they cannot be written."""
        try:
            (file or sys.stderr).write(message)
        except BrokenPipeError:
            mute(file or sys.stderr)
        except OSError as error:
            raise ValueError(f"standard output cannot be written: {error.strerror}") from None


def parser() -> argparse.ArgumentParser:
    """The arguments of ``convexstruct``."""
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on standard output, nothing else")
    common.add_argument("--report", metavar="FILE.html", help="write one self-contained page with plots")
    common.add_argument("--quick", action="store_true", help="small instances only")
    common.add_argument("--seed", type=int, default=0, metavar="N", help="seed of generated instances (default 0)")
    common.add_argument("--tol", metavar="TOL", help="LOW (1e-3), MID (1e-4), HIGH (1e-6), or a relative gap")
    top = _Parser(prog="convexstruct", description="Convex structured prediction: stated, solved fast, certified.")
    top.add_argument("--version", action="version", version=release("convexstruct"))
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, example: str, **said: Any) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[common], epilog=f"example: convexstruct {example}", **said)

    systems = command("list", "list --on log_linear", help="each system, its paper and equations")
    systems.add_argument("--on", metavar="FAMILY", help="the systems of one family only")
    verify = command(
        "verify",
        "verify mine.py:solve --on structured_svm --limit 10 --report mine.html",
        help="reference optima against the fast paths, or against your own solver",
        description="Without a solver: every built-in case, its CVXPY formulation against the fast path, with "
        "certified bounds. With FILE.py:NAME: your function problem -> array | mapping | Solution against the stored "
        'optima. With "COMMAND {case} {answer}": your program, run on each case. With --answers: what it wrote.',
    )
    verify.add_argument("solver", nargs="?", metavar="SOLVER", help='FILE.py:NAME, or "COMMAND {case} {answer}"')
    verify.add_argument("--answers", metavar="FOLDER", help="answers to cases, or to cone programs (each has its seed)")
    verify.add_argument("--on", metavar="FAMILY", help="a family, one of its systems, or the name of one case")
    verify.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds for a solver on a case (60)")
    verify.add_argument("--refresh", action="store_true", help="recompute the stored reference optima first")
    export = command(
        "export", "export cases --on projection --text", help="cases as files, for solvers in any language"
    )
    export.add_argument("folder", metavar="FOLDER", help="where to write them; the page there says how to answer")
    export.add_argument("--on", metavar="FAMILY", help="a family of systems, or the name of one case; default all")
    export.add_argument("--conic", action="store_true", help="the cone programs of the formulations, as CBF and NPZ")
    export.add_argument("--scale", type=int, default=1, metavar="N", help="with --conic, instances N times as large")
    export.add_argument("--text", action="store_true", help="numbers as CSV and MatrixMarket instead of NPZ")
    reproduce = command(
        "reproduce", "reproduce tracking --quick --report tracking.html", help="a table or figure of a paper"
    )
    reproduce.add_argument("name", metavar="NAME", help="the experiment, as `convexstruct list` names it")
    command("data", "data --json", help="which data sets are here, where the others come from")
    return top
