"""``python -m convexstruct.datasets``: files of labelled sequences, which `from_files` of problems reads.

python -m convexstruct.datasets chains FOLDER --examples 1000000 --files 64
python -m convexstruct.datasets hmm FOLDER --examples 1000000 --files 64
python -m convexstruct.datasets conll FOLDER train.txt --files 8
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from convexstruct.datasets.example_files import write_chains, write_conll, write_hidden_markov


def main(arguments: Sequence[str] | None = None) -> int:
    """0; or 2 with one sentence on standard error where an argument or a text is malformed."""
    top = argparse.ArgumentParser("python -m convexstruct.datasets", description="Write files of labelled sequences.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chains = commands.add_parser("chains", help="generated chains, whose labels are drawn from planted weights")
    hmm = commands.add_parser("hmm", help="sequences of symbols, and their states, from a hidden Markov model")
    conll = commands.add_parser("conll", help="sentences of a text in columns, one token a line")
    for each in (chains, hmm, conll):
        each.add_argument("folder", type=Path, metavar="FOLDER", help="where to write 00000.npz, 00001.npz, ...")
        each.add_argument("--files", type=int, default=8, metavar="N", help="how many (default 8)")
    for name, default, said, takes in (
        ("examples", 10_000, "sequences", (chains, hmm)), ("length", 12, "nodes of each", (chains, hmm)),
        ("labels", 8, "labels, or states, of a node", (chains, hmm)), ("features", 30, "features of a node", (chains,)),
        ("symbols", 30, "symbols", (hmm,)), ("seed", 0, "seed", (chains, hmm)),
    ):  # fmt: skip
        for each in takes:
            each.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{said} (default {default})")
    conll.add_argument("text", metavar="TEXT", help="the text, UTF-8, .gz where it is packed")
    conll.add_argument("--label", type=int, default=-1, metavar="N", help="the labels' column (default: the last)")
    conll.add_argument("--window", type=int, default=1, metavar="N", help="neighbours whose columns count (default 1)")
    conll.add_argument("--delimiter", help="what separates columns (default: white space)")
    conll.add_argument("--comment", help="what lines that are left out begin with (default: none are)")
    given = top.parse_args(arguments)
    try:
        if given.command == "chains":
            sizes = {"length": given.length, "n_labels": given.labels, "n_features": given.features}
            paths = write_chains(given.folder, given.files, given.examples, given.seed, **sizes)
        elif given.command == "hmm":
            sizes = {"length": given.length, "n_labels": given.labels, "n_symbols": given.symbols}
            paths = write_hidden_markov(given.folder, given.files, given.examples, given.seed, **sizes)
        else:
            read = {"label": given.label, "delimiter": given.delimiter, "comment": given.comment}
            paths = write_conll(given.folder, given.files, given.text, given.window, **read)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(paths)} files in {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
