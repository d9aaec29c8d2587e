"""`python -m benchmarks.papers run [NAMES] [--missing]` runs the commands of docs/papers.md and keeps their
figures in `results.json`; `python -m benchmarks.papers page` makes the page of them."""

from __future__ import annotations

import argparse
import sys

from benchmarks.papers.commands import run
from benchmarks.papers.page import draw, write

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("run", help="run commands and keep their figures")
    verb.add_argument("names", nargs="*", help="parts of the names of commands; all by default")
    verb.add_argument("--missing", action="store_true", help="those without results only")
    verbs.add_parser("page", help="make docs/papers.md of the results")
    given = parser.parse_args()
    if given.verb == "run":
        sys.exit(0 if run(given.names, given.missing) else 1)
    write()
    draw()
