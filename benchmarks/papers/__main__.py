"""The figures of the five papers.

`python -m benchmarks.papers SCRIPT PART` runs a part of a script, as `unified table-4`; with `run [NAMES]
[--missing]` it runs the commands of docs/papers.md and keeps their figures in `results.json`, and with `page`
it makes the page of them.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.harness import main
from benchmarks.papers.commands import SCRIPTS, parts_of, run
from benchmarks.papers.page import draw, write

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SCRIPTS:
        sys.exit(main(f"Parts of {sys.argv[1]}.", parts_of(sys.argv[1]), sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for script in SCRIPTS:
        verbs.add_parser(script, help="parts of this script")
    verb = verbs.add_parser("run", help="run commands and keep their figures")
    verb.add_argument("names", nargs="*", help="parts of the names of commands; all by default")
    verb.add_argument("--missing", action="store_true", help="those without results only")
    verbs.add_parser("page", help="make docs/papers.md of the results")
    given = parser.parse_args()
    if given.verb == "run":
        sys.exit(0 if run(given.names, given.missing) else 1)
    write()
    draw()
