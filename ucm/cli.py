"""The command `ucm`: demo, models, fit, admissible, bench.

Exit status: 0 done and certified, 1 an answer without the certificate or agreement asked for,
2 bad input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ucm import __version__, bench
from ucm.bench.choose import declare, model_names, sample, signature
from ucm.bench.clock import timed
from ucm.compiler import compile as compiler
from ucm.data import datasets
from ucm.data.files import read_table
from ucm.errors import ConvergenceWarning, DataError, ParameterError, UCMError
from ucm.evidence.admissible import admissible
from ucm.language import models
from ucm.language.json import to_json
from ucm.language.node import TEXT

__all__ = ["main"]

FORMATS = {"here": ".5g", "gap": ".1e", "difference": ".1e", "accuracy": ".1%", "seconds": ".2g"}
CERTIFIED = ("optimal", "local", "stationary")  # a non-convex model has no proof of more
DEMO_SETS = ("breast_cancer", "wine")
DEMO_MODELS = ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "coherent_mm_mpm")

DEMO_COLUMNS = ("model", "with", "objective", "CVXPY", "gap", "accuracy", "seconds", "agrees")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        options = _parser().parse_args(arguments)
        with warnings.catch_warnings():  # status and gap are printed in any case
            warnings.simplefilter("ignore", ConvergenceWarning)
            return options.run(options)
    except UCMError as error:
        print("ucm: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ucm: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader went away; let the interpreter's last flush go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints take one line, like every other."""

    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ucm", description="Declare, solve, certify and verify classifiers.")
    parser.add_argument("--version", action="version", version=f"ucm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, what: str, run: Callable[[argparse.Namespace], int]) -> Any:
        sub = commands.add_parser(name, help=what, description=what)
        sub.set_defaults(run=run)
        sub.add_argument(
            "--json", action="store_true", help="print JSON; infinite numbers are null"
        )
        return sub

    def on_a_file(sub: Any) -> None:
        sub.add_argument("file", metavar="FILE", help="samples and labels, LIBSVM or CSV")
        sub.add_argument("--model", required=True, metavar="NAME", help="see ucm models")
        sub.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value"
        )
        sub.add_argument("--label", metavar="COLUMN", help="of a CSV file: first, last or a name")

    command("demo", "six models on real data: solved, certified, verified against CVXPY", _demo)
    command("models", "the named models, with their mathematics", _models)
    fit = command("fit", "fit a named model to a file", _fit)
    on_a_file(fit)
    fit.add_argument("--solver", default="auto", metavar="NAME", help="default: by the route table")
    fit.add_argument("--tol", type=float, default=1e-6, help="relative gap (default: 1e-6)")
    fit.add_argument("--max-iter", type=int, help="limit of iterations")
    fit.add_argument("--verify", action="store_true", help="compare with the CVXPY twin")
    fit.add_argument("--verbose", action="store_true", help="print the solver's iterations")
    on_a_file(command("admissible", "where the model is not trivial on a file", _admissible))
    benchmark = command("bench", "run a benchmark; without a name, list them", _bench)
    benchmark.set_defaults(name=None)
    named = benchmark.add_subparsers(dest="name", metavar="NAME")
    for name in bench.names():
        chosen = bench.get(name)
        sub = named.add_parser(name, help=chosen.what, description=chosen.what)
        sub.add_argument(
            "part", nargs="?", metavar="PART", help=f"only one of {', '.join(chosen.parts)}"
        )
        sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        if chosen.arguments is not None:
            chosen.arguments(sub)
    return parser


# --- commands ---------------------------------------------------------------------------------
def _demo(options: argparse.Namespace) -> int:
    console = _console()
    rows = []
    with Progress(console=console, transient=True, disable=options.json) as bar:
        task = bar.add_task("solving", total=len(DEMO_SETS) * len(DEMO_MODELS))
        for set_name in DEMO_SETS:
            X, y = datasets.load(set_name)
            if not options.json:
                console.print(f"[bold]{set_name}[/]: {X.shape[0]} samples, {X.shape[1]} features\n")
            for model_name in DEMO_MODELS:
                bar.update(task, description=f"{set_name}, {model_name}")
                model = declare(model_name, {}, X, y)
                plan = compiler.compile(model, X, y)
                if not options.json:
                    brief = set_name != DEMO_SETS[0]  # routes and forms are as on the first set
                    _show_declaration(console, model_name, model, None if brief else plan)
                rows.append(_demo_row(set_name, model_name, model, plan, X, y))
                bar.advance(task)
    agree = all(row["agrees"] and row["status"] == "optimal" for row in rows)
    if options.json:
        _print_json({"agree": agree, "rows": rows})
    else:
        for set_name in DEMO_SETS:
            shown = [
                {name: row[name] for name in DEMO_COLUMNS} for row in rows if row["set"] == set_name
            ]
            console.print(_table(shown, f"{set_name}: proven relative gap, and the CVXPY twin"))
        if rows[0]["seconds"] > 1.0:
            console.print("The first solve of an installation also compiles its solver.\n")
        console.print("all agree" if agree else "NOT all agree", style="bold")
    return 0 if agree else 1


def _demo_row(
    set_name: str, model_name: str, model: Any, plan: Any, X: Any, y: Any
) -> dict[str, Any]:
    solution, seconds = timed(plan.solve)
    check = plan.verify()
    return {
        "set": set_name,
        "model": model_name,
        "with": model.params(),
        "status": solution.status,
        "objective": solution.objective,
        "CVXPY": check.reference_objective,
        "gap": solution.certificate.relative_gap,
        "accuracy": _accuracy(solution, X, y),
        "passes": solution.stats.passes,
        "seconds": seconds,
        "agrees": bool(check.agrees),
    }


def _models(options: argparse.Namespace) -> int:
    rows = []
    for name in model_names():
        parameters = signature(name).parameters.values()
        words = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters]
        model = sample(name)
        rows.append(
            {
                "model": f"{name}({', '.join(words)})",
                "set": model.formula(TEXT),
                "meaning": (getattr(models, name).__doc__ or "").partition("\n")[0],
            }
        )
    if options.json:
        _print_json(rows)
    else:
        _console().print(_table(rows, "ucm.models"))
    return 0


def _fit(options: argparse.Namespace) -> int:
    X, y, labels = _read(options)
    model = declare(options.model, _values(options.set), X, y)
    plan = compiler.compile(model, X, y, solver=options.solver)
    verbose = options.verbose and not options.json
    solution = plan.solve(tol=options.tol, max_iter=options.max_iter, verbose=verbose)
    check = plan.verify() if options.verify else None
    if options.json:
        _print_json(_answer(options, model, solution, check, X, y, labels))
    else:
        console = _console()
        _show_declaration(console, options.model, model, plan)
        certificate, stats = solution.certificate, solution.stats
        rows = {
            "samples, features": f"{X.shape[0]}, {X.shape[1]}",
            "labels -1, +1": ", ".join(labels),
            "status": solution.status,
            "objective": f"{solution.objective:.9g}",
            "gap, relative": f"{certificate.gap:.3g}, {certificate.relative_gap:.3g}",
            "training accuracy": f"{_accuracy(solution, X, y):.4f}",
            "solver": f"{stats.solver}, {stats.iterations} iterations, {stats.passes:.4g} passes",
            "seconds": f"{stats.setup_time + stats.solve_time:.3g}",
        }
        table = Table(show_header=False, box=None)
        for name, entry in rows.items():
            table.add_row(name, entry)
        console.print(table)
        if check is not None:
            console.print(str(check), markup=False, highlight=False)
    certified = solution.status in CERTIFIED
    if not certified:
        print(f"ucm: {solution.status}: {' '.join(solution.message.split())}", file=sys.stderr)
    return 0 if certified and (check is None or check.agrees) else 1


def _answer(
    options: argparse.Namespace, model: Any, solution: Any, check: Any, X: Any, y: Any, labels: Any
) -> dict[str, Any]:
    certificate, stats = solution.certificate, solution.stats
    fields = ("primal", "dual", "gap", "relative_gap", "violation", "kind")
    counts = ("solver", "setup_time", "solve_time", "iterations", "passes")
    compared = ("agrees", "objective", "reference_objective")
    return {
        "file": options.file,
        "samples": X.shape[0],
        "features": X.shape[1],
        "labels": dict(zip(("-1", "+1"), labels, strict=True)),
        "model": options.model,
        "parameters": model.params(),
        "declaration": json.loads(to_json(model)),
        "status": solution.status,
        "message": solution.message,
        "objective": solution.objective,
        "w": solution.w,
        "b": solution.b,
        "training_accuracy": _accuracy(solution, X, y),
        "certificate": {name: getattr(certificate, name) for name in fields},
        "stats": {name: getattr(stats, name) for name in counts},
        "verification": check and {name: getattr(check, name) for name in compared},
    }


def _admissible(options: argparse.Namespace) -> int:
    X, y, _ = _read(options)
    model = sample(options.model, _values(options.set))
    rows = [
        {"parameter": name, "lower": interval.lower, "upper": interval.upper, "how": interval.how}
        for name, interval in admissible(model, X, y).items()
    ]
    if options.json:
        _print_json({row.pop("parameter"): row for row in rows})
    else:
        console = _console()
        console.print(str(model), markup=False, highlight=False)
        console.print(_table(rows, f"{options.model} on {options.file}"))
    return 0


def _bench(options: argparse.Namespace) -> int:
    if options.name is None:
        rows = [
            {
                "name": b.name,
                "measures": b.what,
                "parts": ", ".join(b.parts) if len(b.parts) > 1 else "",
            }
            for b in map(bench.get, bench.names())
        ]
        if options.json:
            _print_json(rows)
        else:
            _console().print(_table(rows, "ucm bench NAME [PART]"))
        return 0
    chosen = bench.get(options.name)
    general = {"command", "run", "json", "name", "part"}
    own = {word: given for word, given in vars(options).items() if word not in general}
    work, rows = chosen.rows(options.part, **own), []
    total = None if chosen.count is None else chosen.count(options.part, **own)
    with Progress(console=Console(stderr=True), transient=True, disable=options.json) as bar:
        task = bar.add_task(chosen.name, total=total)
        for row in work:
            rows.append(row)
            bar.update(task, description=f"{chosen.name}: {len(rows)} rows", advance=1)
    if options.json:
        _print_json({"name": chosen.name, "rows": rows})
    else:
        _console().print(_table(rows, chosen.what))
    return 0 if all(row["within"] is not False for row in rows) else 1


# --- input ------------------------------------------------------------------------------------
def _read(options: argparse.Namespace) -> tuple[Any, Any, list[str]]:
    """Samples, labels -1 and +1, and what these two stand for in the file."""
    signature(options.model)  # an unknown model is reported before a long file is read
    X, raw = read_table(options.file, label=options.label)
    found, y = np.unique(raw, return_inverse=True)
    labels = [f"{x:g}" if isinstance(x, float) else str(x) for x in found.tolist()]
    if len(labels) != 2:
        some = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise DataError(f"{options.file}: {len(labels)} different labels ({some}); expected two")
    return X, 2 * y - 1, labels


def _values(assignments: Iterable[str]) -> dict[str, float]:
    """`["nu=0.3"]` as `{"nu": 0.3}`."""
    values: dict[str, float] = {}
    for text in assignments:
        name, equals, number = text.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            equals = ""
        if not (equals and name):
            raise ParameterError(f"--set {text}: expected NAME=VALUE with a number, as nu=0.3")
    return values


# --- output -----------------------------------------------------------------------------------
def _console() -> Console:
    """Standard output; wide where no terminal says how wide it is."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def _show_declaration(console: Console, name: str, model: Any, plan: Any | None) -> None:
    """The model as source text and as mathematics, and, given a plan, how it is solved."""
    console.print(f"[bold]{name}[/]  {escape(repr(model))}", highlight=False, soft_wrap=True)
    text = str(model) if plan is None else plan.explain()
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print()


def _accuracy(solution: Any, X: Any, y: Any) -> float:
    """The share of the samples on their own side; NaN where there is no classifier."""
    if solution.b is None:
        return math.nan
    return float(np.mean(np.where(solution.decision(X) > 0.0, 1, -1) == y))


def _table(rows: list[dict[str, Any]], title: str) -> Table:
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        numeric = any(isinstance(row.get(name), float | int) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name), FORMATS.get(name, ".4g")) for name in columns))
    return table


def _cell(entry: Any, number: str) -> str:
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "NO"
    if isinstance(entry, dict):
        return ", ".join(f"{TEXT.symbol(name)}={value:.3g}" for name, value in entry.items())
    return format(entry, number) if isinstance(entry, float) else escape(str(entry))


def _print_json(document: Any) -> None:
    print(json.dumps(_plain(document), indent=2, allow_nan=False))


def _plain(x: Any) -> Any:
    """`x` in JSON's own types; NaN and infinities become null."""
    if isinstance(x, dict):
        return {name: _plain(item) for name, item in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(item) for item in x]
    if isinstance(x, np.ndarray | np.generic):
        return _plain(x.tolist())
    return None if isinstance(x, float) and not math.isfinite(x) else x
