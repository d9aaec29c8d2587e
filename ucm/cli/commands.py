"""The commands, each a function of the parsed options that returns the exit status."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from scipy import sparse

from ucm.cli.choose import declare, model_names, parameters, refuse_open, sample
from ucm.cli.report import Section, page, write
from ucm.cli.show import as_json, console, table
from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data import datasets
from ucm.data.files import read
from ucm.data.readers import SUFFIXES, feature_rows, open_rows
from ucm.data.source import Labelled, ObservedSource, RowSource
from ucm.errors import DataError, ParameterError
from ucm.estimators.out_of_core import accuracy_rows, scored
from ucm.estimators.saved import Saved
from ucm.estimators.validation import normal_in_features
from ucm.evidence.relative import admissible
from ucm.forms.monitor import check_time_limit, limit_from
from ucm.forms.solution import Solution
from ucm.language import models
from ucm.language.node import TEXT
from ucm.language.objective import Objective
from ucm.language.robust import as_model
from ucm.language.serialize import from_json, to_json

__all__ = ["COMMANDS"]

CERTIFIED = ("optimal", "local", "stationary")  # a non-convex model has no proof of more
DEMO_SETS = ("wine", "breast_cancer")
DEMO_MODELS = ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "coherent_mm_mpm")
_LARGE = 1 << 28  # bytes of a CSV file

DEMO_COLUMNS = (
    "data", "model", "with", "objective", "gap", "accuracy", "seconds", "agrees",
)  # fmt: skip
DEMO_LEAD = (
    "Six classifiers, each declared as an uncertainty set and solved by the method that fits it. The gap "
    "is proven from the declaration, which no solver sees; CVXPY solves what is declared once more."
)


# --- commands ---------------------------------------------------------------------------------
def _demo(options: argparse.Namespace) -> int:
    out, rows, sections = console(quiet=options.json), [], []
    every = [(data, model) for data in DEMO_SETS for model in DEMO_MODELS]
    out.print(DEMO_LEAD)
    with _steps(len(every) + 1, quiet=options.json) as step:
        for set_name, model_name in every:
            step(f"{set_name}, {model_name}: solve, certify, verify with CVXPY")
            X, y = datasets.load(set_name)
            plan = compile(declare(model_name, {}, X, y), X, y)
            row, section = _demo_row(set_name, model_name, plan, X, y)
            rows.append(row)
            sections.append(section)
        shown = [{name: row[name] for name in DEMO_COLUMNS} for row in rows]
        agree = all(row["agrees"] and row["status"] == "optimal" for row in rows)
        wanted = not options.json or options.report or options.open
        file = (options.report or _temporary("ucm-demo.html")) if wanted else None
        if file:
            step("pictures (the first run of matplotlib also lists the fonts)")
            file = write(file, page("ucm demo", DEMO_LEAD, shown, sections))
    previous = ""
    for row in shown:
        row["data"], previous = ("" if row["data"] == previous else row["data"]), row["data"]
    out.print(table(shown, ""))
    out.print("all agree" if agree else "NOT all agree", style="bold")
    if options.json:
        print(as_json({"agree": agree, "rows": rows}))
    if file:
        _announce(out, file, options.open)
    return 0 if agree else 1


@contextmanager
def _steps(total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function that announces the next of `total` steps on standard error: a bar on a terminal, which
    moves while a step lasts, else a line for each step."""
    errors = Console(stderr=True, quiet=quiet)
    if not errors.is_terminal:
        yield lambda what: errors.print(what, markup=False, highlight=False, soft_wrap=True)
        return
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=errors, transient=True) as progress:
        task, begun = progress.add_task("", total=total), 0

        def step(what: str) -> None:
            nonlocal begun
            progress.update(task, description=escape(what), completed=begun, refresh=True)
            begun += 1

        yield step


def _demo_row(
    set_name: str, model_name: str, plan: Plan, X: Any, y: Any
) -> tuple[dict[str, Any], Section]:
    began = time.perf_counter()
    solution = plan.solve()
    seconds = time.perf_counter() - began
    check = plan.verify()
    drawn = set_name == DEMO_SETS[0]  # the smaller one
    row = {
        "data": set_name,
        "model": model_name,
        "with": plan.model.params(),
        "status": solution.status,
        "objective": solution.objective,
        "CVXPY": check.reference_objective,
        "gap": abs(solution.certificate.relative_gap),
        "accuracy": _accuracy(solution, X, y),
        "passes": solution.stats.passes,
        "seconds": seconds,
        "agrees": bool(check.agrees),
    }
    return row, Section(f"{model_name} on {set_name}", plan, solution, check, drawn)


def _models(options: argparse.Namespace) -> int:
    rows = []
    for name in model_names():
        words = [w if x is None else f"{w}={x}" for w, x in parameters(name).items()]
        meaning = (getattr(models, name).__doc__ or "").partition("\n")[0]
        model = f"{name}({', '.join(words)})"
        rows.append({"model": model, "set": sample(name).formula(TEXT), "meaning": meaning})
    return _listed(options, rows, "ucm.models")


def _fit(options: argparse.Namespace) -> int:
    model = _declared(options)  # what is wrong there is reported before a long file is read
    check_time_limit(options.time_limit, "fit")
    stored = _by_blocks(options.file)
    if stored and model is None:
        refuse_open(options.model, _values(options.param), options.file)
    if stored and (options.report or options.open):
        raise ParameterError(
            f"fit: --report and --open draw all samples, got {options.file}, which is read block by block; "
            "leave them out"
        )
    X, y, labels, features, columns, zero_based, names = (
        _rows(options) if stored else _read(options)
    )
    given = _values(options.param)
    if model is None:
        model = declare(options.model, given, X, y)
    with _passes(X, options) as (X, told):
        began = time.perf_counter()
        plan = compile(model, X, y, solver=options.solver)
        solution = plan.solve(
            tol=options.tol,
            max_iter=options.max_iter,
            time_limit=limit_from(options.time_limit, began),
            verbose=options.verbose and not options.json,
            callback=told,
        )
    if options.save and (solution.b is None or solution.w is None or not solution.w.any()):
        raise DataError(
            f"fit: --save: expected a direction to classify by, got w = 0 or no b ({solution.status}: "
            f"{' '.join(solution.message.split())}); take other parameters, or leave --save out"
        )
    check = plan.verify() if options.verify else None
    share, certificate, stats = _accuracy(solution, X, y), solution.certificate, solution.stats
    m = X.m if stored else X.shape[0]
    if options.json:
        fields = ("primal", "dual", "gap", "relative_gap", "violation", "kind")
        counts = ("solver", "setup_time", "solve_time", "iterations", "passes")
        compared = ("agrees", "objective", "reference_objective")
        answer = {
            "file": options.file,
            "samples": m,
            "features": features,
            "columns": columns,
            "labels": dict(zip(("-1", "+1"), labels, strict=True)),
            "model": options.model or options.model_file,
            "parameters": model.params(),
            "declaration": json.loads(to_json(model)),
            "status": solution.status,
            "message": solution.message,
            "objective": solution.objective,
            "w": solution.w,
            "b": solution.b,
            "training_accuracy": share,
            "certificate": {name: getattr(certificate, name) for name in fields},
            "stats": {name: getattr(stats, name) for name in counts},
            "verification": check and {name: getattr(check, name) for name in compared},
        }
        print(as_json(answer))
    else:
        out, lines = console(), Table(show_header=False, box=None)
        if options.verbose:
            out.print(plan.explain(True), markup=False, highlight=False, soft_wrap=True)
            out.print()
        for name, entry in {
            "model": escape(options.model or options.model_file),
            "parameters": _origins(options.model, model.params(), given),
            "samples, features": f"{m}, {features}",
            **({} if columns is None else {"features that occur": f"{columns.size}"}),
            "labels -1, +1": escape(", ".join(labels)),
            "status": solution.status,
            "objective": f"{solution.objective:.9g}",
            "gap, relative": f"{certificate.gap:.3g}, {certificate.relative_gap:.3g}",
            "training accuracy": f"{share:.4f}",
            "solver": f"{stats.solver}, {stats.iterations} iterations",
            "seconds": f"{stats.setup_time + stats.solve_time:.3g}",
        }.items():
            lines.add_row(name, entry)
        out.print(lines)
        if check is not None:
            out.print(str(check), markup=False, highlight=False)
    if options.save and solution.b is not None:
        w = normal_in_features(plan.model, solution, plan.data.n)
        kept = None if columns is None else (columns - 1).tolist()
        proof = (solution.status, solution.objective, certificate.relative_gap)
        saved = Saved(model, w, solution.b, labels, features, kept, zero_based, names, *proof)
        file = saved.write(options.save)
        console(quiet=options.json).print(
            f"for ucm predict: {file}", markup=False, highlight=False, soft_wrap=True
        )
    if options.report or options.open:
        title = f"{options.model or options.model_file} on {options.file}"
        section = Section(title, plan, solution, check)
        file = write(options.report or _temporary("ucm-fit.html"), page(title, "", [], [section]))
        _announce(console(quiet=options.json), file, options.open)
    certified = solution.status in CERTIFIED
    if not certified:
        print(f"ucm: {solution.status}: {' '.join(solution.message.split())}", file=sys.stderr)
    return 0 if certified and (check is None or check.agrees) else 1


def _origins(name: str | None, values: dict[str, float], given: dict[str, float]) -> str:
    """The parameters of a fitted model, each with the origin of its value."""
    known = {} if name is None else parameters(name, given)
    words = []
    for word, x in values.items():
        origin = "given" if word in given else "default"
        if name is None and word not in given:
            origin = "of the file"
        elif word not in given and known.get(word) is None:
            several = sum(known[w] is None and w not in given for w in values) > 1
            origin = (
                "chosen: 1.1 times its least admissible value"
                if several
                else "chosen: the middle of its admissible interval"
            )
        words.append(f"{word} = {x:.4g} ({origin})")
    return ", ".join(words) or "none"


def _predict(options: argparse.Namespace) -> int:
    saved = Saved.read(options.classifier)
    if _by_blocks(options.file):
        scores, raw = _scores(options, saved)
    else:
        X, raw, _, names = read(
            options.file, label=options.label, features=saved.features, zero_based=saved.zero_based
        )
        scores = saved.decision(X, names)
    found = np.where(scores > 0.0, saved.labels[1], saved.labels[0])
    share = None if raw is None else float(np.mean(found == np.array(_words(raw))))
    if options.json:
        answer = {"labels": found.tolist(), "scores": scores, "accuracy": share}
        print(as_json({"file": options.file, "classifier": options.classifier, **answer}))
        return 0
    for label, score in zip(found, scores, strict=True):
        print(f"{label},{score:.9g}" if options.scores else label)
    if share is not None:
        print(f"ucm: accuracy {share:.4f} on {len(found)} samples", file=sys.stderr)
    return 0


def _admissible(options: argparse.Namespace) -> int:
    model = _declared(options)
    if model is None:
        model = sample(options.model, _values(options.param))
    X, y, *_ = _read(options)
    rows = [
        {"parameter": name, "lower": interval.lower, "upper": interval.upper, "how": interval.how}
        for name, interval in admissible(model, X, y).items()
    ]
    if options.json:
        print(as_json({row.pop("parameter"): row for row in rows}))
        return 0
    console().print(str(model), markup=False, highlight=False)
    return _listed(options, rows, f"{options.model or options.model_file} on {options.file}")


def _accuracy(solution: Solution, X: Any, y: Any) -> float:
    """The share of the samples on their own side; NaN without a classifier."""
    if solution.b is None:
        return float("nan")
    if isinstance(X, RowSource):
        return accuracy_rows(X, solution.w, solution.b)
    return float(np.mean(np.where(solution.decision(X) > 0.0, 1, -1) == y))


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "models": _models,
    "fit": _fit,
    "predict": _predict,
    "admissible": _admissible,
}


# --- input ------------------------------------------------------------------------------------
class _Table(NamedTuple):
    """The samples and labels in a file.

    Attributes
    ----------
    X, y : samples, labels -1 and +1
    labels : what these two stand for
    features : how many the file has
    columns : the indices, from 1, of those in X where others never occur; else None
    zero_based : whether the indices of a LIBSVM file begin at 0
    names : of the features, where the file has some
    """

    X: Any
    y: Any
    labels: list[str]
    features: int
    columns: Any
    zero_based: bool | None
    names: list[str] | None


def _declared(options: argparse.Namespace) -> Any:
    """The declaration of a file, with the values given; None of a named model, which is known."""
    if options.model_file is None:
        parameters(options.model)
        return None
    try:
        model: Any = from_json(Path(options.model_file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # UCM's own among them
        what = error.strerror if isinstance(error, OSError) else error
        raise DataError(
            f"{options.model_file}: cannot be read ({what}); name a file of JSON that ucm.to_json wrote"
        ) from None
    if not isinstance(model, Objective):
        as_model(model, options.model_file)  # or it is none
    return model.with_params(**_values(options.param))


def _words(labels: Any) -> list[str]:
    """Labels as they are printed."""
    return [f"{x:g}" if isinstance(x, float) else str(x) for x in labels.tolist()]


def _by_blocks(file: str) -> bool:
    """Whether a file is read block by block; a CSV file where it is large."""
    path = Path(file)
    small = path.suffix.lower() == ".csv" and (not path.is_file() or path.stat().st_size < _LARGE)
    return path.suffix.lower() in SUFFIXES and not small


def _rows(options: argparse.Namespace) -> _Table:
    """A file that is read block by block."""
    source = open_rows(options.file, options.label)
    found = source.labels()
    labels = _words(found)
    _refuse_labels(options.file, labels)
    return _Table(Labelled(source, found[1]), None, labels, source.n, None, None, source.features)


@contextmanager
def _passes(X: Any, options: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    """The samples, watched, and what tells their passes: a bar on a terminal. Others as they are."""
    errors = Console(stderr=True)
    if not isinstance(X, RowSource) or options.json or options.verbose or not errors.is_terminal:
        yield X, None
        return
    with Progress(console=errors, transient=True) as progress:
        bar, gap = progress.add_task("pass 1", total=None), ""

        def before(number: int) -> None:
            progress.update(bar, description=f"pass {number}{gap}", refresh=True)

        def told(record: dict[str, Any]) -> None:
            nonlocal gap
            gap = f", gap {record['gap']:.1e}"

        yield ObservedSource(X, before), told


def _scores(options: argparse.Namespace, saved: Saved) -> tuple[Any, Any]:
    """The scores of a file that is read block by block, and its labels where it has some."""
    labelled = True
    try:
        source = open_rows(options.file, options.label)
    except DataError:
        if options.label is not None:
            raise
        source, labelled = feature_rows(options.file, saved.names), False
    scores, labels = scored(source, saved.normal[None, :], saved.names)
    return scores.ravel() + saved.b, labels if labelled else None


def _refuse_labels(file: str, labels: list[str]) -> None:
    if len(labels) != 2:
        some = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise DataError(f"{file}: {len(labels)} different labels ({some}); expected two")


def _read(options: argparse.Namespace) -> _Table:
    if Path(options.file).suffix.lower() in SUFFIXES.keys() - {".csv"}:
        raise DataError(
            f"{options.file}: expected a LIBSVM or CSV file, got one that is read block by block, which fit "
            "and predict do; write its samples as CSV"
        )
    X, raw, zero_based, names = read(options.file, label=options.label)
    features, columns = X.shape[1], None
    if sparse.issparse(X) and X.nnz < features:  # those that never occur have no weight
        columns, places = np.unique(X.indices, return_inverse=True)
        X = sparse.csr_matrix((X.data, places, X.indptr), shape=(X.shape[0], max(1, columns.size)))
    found, y = np.unique(raw, return_inverse=True)
    labels = _words(found)
    _refuse_labels(options.file, labels)
    columns = None if columns is None else columns + 1
    return _Table(X, 2 * y - 1, labels, features, columns, zero_based, names)


def _values(assignments: Iterable[str]) -> dict[str, float]:
    """`["nu=0.3"]` as `{"nu": 0.3}`."""
    values: dict[str, float] = {}
    for text in assignments:
        name, equals, number = text.partition("=")
        if name in values:
            raise ParameterError(
                f"--param {text}: {name} is set before, to {values[name]:g}; set it once"
            )
        try:
            values[name] = float(number)
        except ValueError:
            equals = ""
        if not (equals and name):
            raise ParameterError(f"--param {text}: expected NAME=VALUE with a number, as nu=0.3")
    return values


# --- output -----------------------------------------------------------------------------------
def _listed(options: argparse.Namespace, rows: list[dict[str, Any]], title: str) -> int:
    if options.json:
        print(as_json(rows))
    else:
        console().print(table(rows, title))
    return 0


def _temporary(name: str) -> str:
    """A file of that name in a new folder of its own, which stays."""
    return os.path.join(tempfile.mkdtemp(prefix="ucm-"), name)


def _announce(out: Console, file: Path, opened: bool) -> None:
    """Says where a page is, and shows it where that is asked."""
    out.print(f"pictures, proofs and routes: {file}", markup=False, highlight=False, soft_wrap=True)
    if opened and not webbrowser.open(file.as_uri()):
        print(f"ucm: no browser was found; open {file}", file=sys.stderr)
