"""Every benchmark in one run, and the table of their goals: reached, MISSED, or undecided and why.

    python benchmarks/all.py [--markdown [FILE]] [--only NAME ...] [--quick] [--limit SECONDS] [--json FILE]

A benchmark is a file beside this one with ``RULES`` (`benchmarks.measure`). Each is a process of its own and writes its
rows as they come; one that is over ``--limit`` is ended, and its rows so far count. All rows stand in one JSON file,
written whole after each benchmark, with the machine and the day of each, those of processors with AVX-512 and of others
beside each other; what is run again replaces its own rows alone, what was never run stands as not run. ``--markdown``
makes the table of that file; `docs/goals.md` is never edited.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import processor, stops, write

HERE = Path(__file__).resolve().parent
#: Where rows and table are kept.
ROWS, TABLE = HERE.parent / "docs" / "goals.json", HERE.parent / "docs" / "goals.md"
#: Seconds for one benchmark; the longest has an hour for itself.
LIMIT = 3900.0
#: How a benchmark ended that Ctrl-C ended.
INTERRUPTED = "interrupted"
#: Figures of a verdict that are shown, and how.
FIGURES = {
    "ratio": "{:.3g}x",
    "seconds": "{:.3g} s",
    "power": "power {:.2f}",
    "passes": "{:.0f} passes",
    "peak": "{:.0f} MiB",
    "f1": "F1 {:.4f}",
    "crfsuite_f1": "CRFsuite's {:.4f}",
}
#: What is said of the machine, in this order.
MACHINE = ("processor", "cores", "features", "system", "load")
#: The kinds of processors whose rows are kept beside each other.
WITH, WITHOUT = "with AVX-512", "without AVX-512"


def benchmarks(folder: Path = HERE) -> dict[str, Path]:
    """The benchmarks of a folder by name."""
    return {file.stem: file for file in sorted(folder.glob("*.py")) if "\nRULES" in file.read_text(encoding="utf-8")}


def run(file: Path, quick: bool, limit: float) -> dict[str, Any]:
    """What a benchmark wrote until it ended or was ended; "ended" says how, "" as it should."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "rows.json"
        command = [sys.executable, str(file), "--json", str(kept), *(["--quick"] if quick else [])]
        process = subprocess.Popen(command, start_new_session=True)  # its own runs are ended with it
        try:
            status = process.wait(limit)
            ended = f"exit status {status}" if status else ""
        except subprocess.TimeoutExpired:
            ended = f"ended after {limit:g} s"
        except KeyboardInterrupt:
            ended = INTERRUPTED
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        told = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    kept_names = ("machine", "rules", "goals", "seconds")
    return {name: told[name] for name in kept_names if name in told} | {"quick": quick, "ended": ended}


def verdict(goal: Mapping[str, Any]) -> str:
    """One word, for what is undecided the reason, and for what is missed what bounds it, where that was measured."""
    if goal["reached"] is None:
        return f"undecided: {goal.get('why', 'a limit ended a run before it could say')}"
    bound = f": {goal['bound']}" if goal.get("bound") else ""
    return "reached" if goal["reached"] else f"**MISSED**{bound}"


def shown(goal: Mapping[str, Any]) -> str:
    """The figures of a goal."""
    return ", ".join(style.format(goal[name]) for name, style in FIGURES.items() if goal.get(name) is not None)


def kind(features: str) -> str:
    """The kind of a processor that has these features."""
    return WITH if "avx512f" in features.split() else WITHOUT


def told(which: str, row: Mapping[str, Any]) -> list[str]:
    """Day, machine and versions of the rows of a benchmark, and how it ended if it did not end by itself."""
    about = row["machine"]
    versions = ", ".join(f"{key} {value}" for key, value in about.items() if key not in (*MACHINE, "date", "threads"))
    machine = ", ".join(f"{key} {about[key]}" for key in MACHINE if key in about)
    small = ", small sizes (--quick)" if row["quick"] else ""
    ended = f"The benchmark did not end by itself ({row['ended']}): goals that are missing here were not run."
    return [
        f"- {which}: {about['date']}{small}; {machine}; {versions}; one thread.",
        *[f"  {ended}"] * bool(row["ended"]),
    ]


def compared(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The table of a benchmark's goals, with two columns a kind of processor; the newest rows say which goals there
    are."""
    newest = max(rows.values(), key=lambda row: row["machine"]["date"])
    if not newest["goals"]:
        return ["No goal was judged."]
    heads = "".join(f" {which} | verdict |" for which in rows)
    lines = [f"| workload | goal |{heads}", "|---" * (2 + 2 * len(rows)) + "|"]
    kept = [{(goal["workload"], goal["goal"]): goal for goal in row["goals"]} for row in rows.values()]
    for goal in newest["goals"]:
        at = goal["workload"], goal["goal"]
        cells = [
            cell for goals in kept for cell in ((shown(goals[at]), verdict(goals[at])) if at in goals else ("", ""))
        ]
        lines.append(f"| {' | '.join((*at, *cells))} |")
    return lines


def markdown(rows: Mapping[str, Mapping[str, Mapping[str, Any]]], names: Sequence[str]) -> str:
    """The table of the goals of all ``names``, with machine and day of each benchmark. rows : by name and kind of
    processor. A cell is empty where a goal has changed since those rows were made."""
    lines = ["# Goals of the benchmarks", "", "Written by `python benchmarks/all.py --markdown`, never by hand.", ""]
    for which in (WITH, WITHOUT):
        goals = [verdict(goal) for name in names for goal in rows.get(name, {}).get(which, {}).get("goals", ())]
        words = ("reached", "missed", "undecided")
        count = ", ".join(
            f"{sum(goal.lower().lstrip('*').startswith(word) for goal in goals)} {word}" for word in words
        )
        lines += [f"- {which}: {count}."] * bool(goals)
    for name in names:
        lines += ["", f"## {name}", ""]
        found = rows.get(name, {})
        ran = {which: found[which] for which in (WITH, WITHOUT) if "machine" in found.get(which, {})}
        if not ran:
            why = [row["ended"] or "it wrote nothing" for row in found.values()]
            lines.append(f"Not run{': ' + why[0] if why else ''}.")
            continue
        for which, row in ran.items():
            lines += told(which, row)
        lines += ["", "When each stops:", ""]
        lines += dict.fromkeys(f"- {line}" for row in ran.values() for line in stops(row["rules"]))
        lines += ["", *compared(ran)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, folder: Path = HERE) -> int:
    known = benchmarks(folder)
    parser = argparse.ArgumentParser(description="Every benchmark, and the table of their goals.")
    parser.add_argument(
        "--only", nargs="*", choices=known, metavar="NAME", help=f"some of: {', '.join(known)}; or none"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, within a minute each; needs --json or nothing is kept"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for each; default {LIMIT:g}")
    parser.add_argument("--json", type=Path, help="file of all rows; default docs/goals.json, but with --quick none")
    parser.add_argument("--markdown", type=Path, nargs="?", const=TABLE, help="write the table; default docs/goals.md")
    chosen = parser.parse_args(arguments)
    if not chosen.limit > 0:
        parser.error(f"--limit is {chosen.limit:g}, wanted a positive number")
    file = chosen.json or (None if chosen.quick else ROWS)
    if chosen.quick and chosen.markdown == TABLE:
        parser.error("--quick is not for docs/goals.md, wanted --markdown FILE")
    rows: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}
    wanted = list(known) if chosen.only is None else chosen.only
    for number, name in enumerate(wanted, start=1):
        print(f"{number} of {len(wanted)}: {name}", file=sys.stderr, flush=True)
        found = run(known[name], chosen.quick, chosen.limit)
        features = found["machine"]["features"] if "machine" in found else " ".join(processor()[1])
        rows.setdefault(name, {})[kind(features)] = found
        if file:
            write(file, json.dumps(rows, indent=1))
        if chosen.markdown:
            write(chosen.markdown, markdown(rows, list(known)))
        if found["ended"] == INTERRUPTED:
            return 130
    if chosen.markdown:
        write(chosen.markdown, markdown(rows, list(known)))
    else:
        print(markdown(rows, list(known)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
