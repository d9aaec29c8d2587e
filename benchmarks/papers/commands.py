"""Every command of docs/papers.md, and their figures in `results.json`, which is written after each.

A command is a script of this package, one of its parts, and options; its part is cut by sets where it takes
more than four minutes of one processor. The command `pytest` runs all tests that the rows of the page name.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from benchmarks.harness import Part, Row, options_of, shown

__all__ = ["COMMANDS", "SCRIPTS", "TEMPLATE", "Command", "parts_of", "read", "run"]

HERE = Path(__file__).resolve().parent
TEMPLATE, RESULTS = HERE / "papers.md.jinja", HERE / "results.json"
PACKAGES = "ucm-classifiers numpy scipy scikit-learn clarabel highspy"

SCRIPTS = ("unified", "extended_nu_svm", "nearest_points", "sparse", "psvm", "beyond")


def parts_of(script: str) -> Mapping[str, Part]:
    """Return the parts of a script by name."""
    return importlib.import_module(f"benchmarks.papers.{script}").PARTS


class Command(NamedTuple):
    """A command, its paper and item."""

    paper: str
    item: str
    name: str

    def rows(self) -> Iterator[Row]:
        """Run it, and print its rows."""
        script, part, *words = (*self.name.split(), "")
        tests = self.name == "pytest"
        yield from shown(tested() if tests else parts_of(script)[part](**options_of(words[:-1])))


# paper | item | command; after each " / " another value of its last option
_TABLE = """
all | tests | pytest
004 | Table 1 | unified table-1
004 | Section 2.1 | unified section-2-1
004 | Section 6.3.1 | unified section-6-3-1
004 | (30)-(31) | unified lemma-5
004 | Table 2 | unified table-2
004 | Table 4 | unified table-4
002 | Table 2 | psvm table-2
002 | Table 1 | psvm table-1
002 | Table 1 | psvm baselines
001 | Table A1 | sparse table-a1
000 | Theorem 20 | extended_nu_svm small
000 | Table 1 | extended_nu_svm banana
004 | Figures 6, 10 | unified figures-6-10
004 | Figures 7, 11 | unified figures-7-11
002 | Figure 3 | psvm figure-3
001 | Theorem 3.1 | sparse theorem-3-1
001 | Figures 12-15 | sparse effort
000 | Tables 2-3 | extended_nu_svm tables-2-3
000 | Figure 8 | extended_nu_svm figure-8
002 | Figure 2 | psvm figure-2
004 | Table 8 | unified table-8
004 | Tables 3, 7 | unified tables-3-7
000 | Table 1 | extended_nu_svm table-1
000 | Figures 9-10 | extended_nu_svm figures-9-10
004 | beyond | beyond unified
000 | beyond | beyond extended-nu-svm
003 | beyond | beyond nearest-points
001 | beyond | beyond sparse
002 | beyond | beyond psvm
003 | Section 3 | nearest_points four-vectors
003 | Tables 2-3 | nearest_points tables-2-3
003 | Tables 2-3 | nearest_points tables-2-3 --sets flare_solar,german,banana / splice,ringnorm / image
000 | (20) | extended_nu_svm below
004 | Table 5 | unified table-5
004 | Table 8 | unified table-8-seconds
004 | Table 5 | unified table-5-rbf
004 | Tables 5-6 | unified tables-5-6
004 | Tables 5-6 | unified tables-5-6-rbf
000 | (20) | extended_nu_svm below --sets ringnorm,twonorm,waveform / image / splice
003 | Section 5 | nearest_points minkowski
001 | (P_k) | sparse inner --sets uci_wpbc,uci_bupa
004 | Figure 5 | unified figure-5
004 | Figure 8 | unified figure-8
004 | Figure 9 | unified figure-9
004 | Table 5 | unified table-5 --sets cod-rna / skin-nonskin / w8a / ijcnn1 / a8a / a9a / w7a
004 | Tables 5-6 | unified tables-5-6 --sets a8a,a9a,cod-rna,ijcnn1,skin-nonskin / w7a,w8a
004 | Tables 5-6 | unified tables-5-6-rbf --sets mushrooms
004 | Table 8 | unified table-8-seconds --sets mushrooms
004 | Table 8 | unified table-8-seconds --sets a8a,a9a,cod-rna,ijcnn1 / skin-nonskin,w7a,w8a / duke / leu
003 | Table 1 | nearest_points table-1
003 | Section 5 | nearest_points mu-mdm
000 | beyond | beyond extended-nu-svm --sets image,ringnorm,twonorm,waveform
001 | Figures 3-9 | sparse noise --sets 0 / 10 / 100 / 200
001 | Table 2 | sparse table-2 --sets uci_sonar,uci_wpbc / uci_ionosphere / uci_pima / uci_bupa
001 | Figure 10 | sparse uci --sets uci_wpbc / uci_bupa
001 | Figure 10 | sparse uci --repeats 2 --sets uci_sonar / uci_ionosphere / uci_pima
002 | Table 1 | psvm table-1-splits
000 | Figure 11 | extended_nu_svm figure-11
002 | Table 3 | psvm table-3
002 | Table 3 | psvm several-baselines
004 | Table 9 | unified table-9
004 | Table 9 | unified table-9 --sets madelon,mushrooms / cod-rna / ijcnn1 / a8a / a9a / w7a / w8a
004 | Table 9 | unified table-9 --sets skin-nonskin
"""


def _commands() -> Iterator[Command]:
    for line in _TABLE.strip().split("\n"):
        paper, item, names = (cell.strip() for cell in line.split("|"))
        first, *others = names.split(" / ")
        yield Command(paper, item, first)
        for other in others:
            yield Command(paper, item, f"{first.rpartition(' ')[0]} {other}")


COMMANDS = tuple(_commands())


def tested() -> Iterator[Row]:
    """The tests that the rows of the page name, in one process: how many passed."""
    text = TEMPLATE.read_text(encoding="utf-8")
    names = dict.fromkeys(re.findall(r"pytest (tests/[\w/]+\.py)(?: -k (\w+))?", text))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = " or ".join(dict.fromkeys(word or Path(file).stem for file, word in names))
        options = ["-q", "-p", "no:cacheprovider", "-k", words, f"--junitxml={report}"]
        files = list(dict.fromkeys(file for file, _ in names))
        command = [sys.executable, "-m", "pytest", *files, *options]
        subprocess.run(command, check=False, cwd=HERE.parent.parent)
        cases = list(ElementTree.parse(report).iter("testcase"))
    for file, word in names:
        module = file.removesuffix(".py").replace("/", ".")
        own = [case for case in cases if case.get("classname") == module and word in case.get("name", "")]
        kinds = [{child.tag for child in case} for case in own]
        failed = sum(bool(kind & {"failure", "error"}) for kind in kinds)
        passed = sum(not kind & {"failure", "error", "skipped"} for kind in kinds)
        name = f"pytest {file} -k {word}" if word else f"pytest {file}"
        yield {"test": name, "passed": passed, "failed": failed, "within": passed > 0 and not failed}


def read() -> dict[str, Any]:
    """Return the kept results by command."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def run(names: Collection[str] = (), missing: bool = False) -> bool:
    """Run the commands that contain one of the names, all by default; return True if none of them failed.

    With `missing`, those without results only. Each is kept when it ends: a run can be stopped and resumed.
    """
    failed = []
    for command in COMMANDS:
        if (names and not any(name in command.name for name in names)) or (
            missing and command.name in read()
        ):
            continue
        print(f"\n{command.name}", datetime.datetime.now(), flush=True)
        before = sum(os.times()[:4])
        try:
            rows = [
                {k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in row.items()}
                for row in command.rows()
            ]
        except Exception:  # of any command: the others run
            traceback.print_exc()
            failed.append(command.name)
            continue
        found = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seconds": round(sum(os.times()[:4]) - before + sum(row.get("spent", 0.0) for row in rows), 1),
            "versions": {package: version(package) for package in PACKAGES.split()},
            "rows": rows,
        }
        _write(read() | {command.name: found}, [command.name for command in COMMANDS])
    print(f"\nfailed: {', '.join(failed) or 'none'}")
    return not failed


def _write(results: Mapping[str, Any], order: list[str]) -> None:
    """A row to a line, in the order of the commands; a command that is no more is dropped."""
    parts = []
    for name in order:
        if name in results:
            head = {k: v for k, v in results[name].items() if k != "rows"}
            rows = ",\n".join(f"  {json.dumps(row)}" for row in results[name]["rows"])
            parts.append(f'{json.dumps(name)}: {json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}')
    part = RESULTS.with_suffix(".part")
    part.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    part.replace(RESULTS)
