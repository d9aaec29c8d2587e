"""The commands, each a function of the parsed options that returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ucm.cli.named_model import declare, defaults, model_names, parsed_values
from ucm.cli.report import Section, page, write
from ucm.cli.saved import Saved
from ucm.cli.show import as_json, console, progress, say, table
from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data import datasets
from ucm.data.files import read
from ucm.data.readers import SUFFIXES, feature_rows, open_rows
from ucm.data.source import Labelled, RowSource
from ucm.data.validation import scale_hint
from ucm.errors import DataError, ParameterError
from ucm.estimators.out_of_core import scored
from ucm.estimators.validation import normal_in_features
from ucm.evidence.reference import Verification
from ucm.evidence.relative_sizes import admissible
from ucm.forms.monitor import check_time_limit, limit_from
from ucm.forms.solution import Solution
from ucm.language import models
from ucm.language.node import TEXT
from ucm.language.objective import Objective
from ucm.language.robust import as_model
from ucm.language.serialize import from_json, to_json

CERTIFIED = ("optimal", "local", "stationary")  # "local": the best proof for a non-convex model
DEMO_SETS = ("wine", "breast_cancer")
DEMO_MODELS = ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "coherent_mm_mpm")
DEMO_COLUMNS = (
    "data", "model", "with", "objective", "gap", "accuracy", "seconds", "agrees",
)  # fmt: skip
DEMO_LEAD = (
    "Six classifiers, each declared as an uncertainty set and solved by the method that fits the set. "
    "The duality gap is computed from the declaration, not by the solver; CVXPY solves each declaration "
    "independently, and the last column compares the objectives."
)
_LARGE = 1 << 28  # bytes, from which on a CSV file is read block by block


# --- commands ---------------------------------------------------------------------------------
def _demo(options: argparse.Namespace) -> int:
    out, rows, sections = console(quiet=options.json), [], []
    out.print(DEMO_LEAD)
    with progress(quiet=options.json) as step:
        for set_name in DEMO_SETS:
            X, y = datasets.load(set_name)
            for model_name in DEMO_MODELS:
                step(f"{set_name}, {model_name}: solve, certify, verify with CVXPY")
                row, section = _demo_row(set_name, model_name, X, y)
                rows.append(row)
                sections.append(section)
        shown = [{name: row[name] for name in DEMO_COLUMNS} for row in rows]
        agree = all(row["agrees"] and row["status"] == "optimal" for row in rows)
        text = ""
        if not options.json or options.report or options.open:
            step("pictures (the first run of matplotlib also lists the fonts)")
            text = page("ucm demo", DEMO_LEAD, shown, sections)
    out.print(table(shown))
    out.print("all agree" if agree else "NOT all agree", style="bold")
    if options.json:
        print(as_json({"agree": agree, "rows": rows}))
    if text:
        _publish(options, out, "ucm-demo.html", text)
    return 0 if agree else 1


def _demo_row(set_name: str, model_name: str, X: Any, y: Any) -> tuple[dict[str, Any], Section]:
    plan = compile(declare(model_name), X, y)
    solution = plan.solve()
    check = plan.verify()
    row = {
        "data": set_name,
        "model": model_name,
        "with": solution.params,
        "status": solution.status,
        "objective": solution.objective,
        "CVXPY": check.reference_objective,
        "gap": abs(solution.certificate.relative_gap),
        "accuracy": _accuracy(solution, X, y),
        "passes": solution.stats.passes,
        "seconds": solution.stats.solve_time,
        "agrees": bool(check.agrees),
    }
    drawn = set_name == DEMO_SETS[0]  # the smaller one
    return row, Section(f"{model_name} on {set_name}", plan, solution, check, drawn)


def _models(options: argparse.Namespace) -> int:
    rows = []
    for name in model_names():
        arguments = [w if x is None else f"{w}={x}" for w, x in defaults(name).items()]
        meaning = (getattr(models, name).__doc__ or "").partition("\n")[0].replace("`", "")
        model = f"{name}({', '.join(arguments)})"
        rows.append({"model": model, "mathematics": declare(name).formula(TEXT), "meaning": meaning})
    return _listed(options, rows, "ucm.models")


def _fit(options: argparse.Namespace) -> int:
    model = _declared(options)  # before a long file is read
    check_time_limit(options.time_limit, "fit")
    by_blocks = _by_blocks(options.file)
    if by_blocks and model.relative_names():
        name = model.relative_names()[0]
        raise ParameterError(
            f"fit: expected a value of {name}, which is chosen for samples in memory only, got "
            f"{options.file}; write --param {name}=VALUE"
        )
    if by_blocks and (options.report or options.open):
        raise ParameterError(
            f"fit: --report and --open draw all samples, got {options.file}, which is read block by block; "
            "leave them out"
        )
    samples = _read_by_blocks(options) if by_blocks else _read(options)
    quiet = options.json or options.verbose or not (by_blocks and Console(stderr=True).is_terminal)
    with progress(quiet) as step:

        def show(record: dict[str, Any]) -> None:
            step(f"iteration {record['iteration']}, gap {record['gap']:.1e}")

        began = time.perf_counter()
        plan = compile(model, samples.X, samples.y, solver=options.solver)
        solution = plan.solve(
            tol=options.tol,
            max_iter=options.max_iter,
            time_limit=limit_from(options.time_limit, began),
            verbose=options.verbose and not options.json,
            callback=None if quiet else show,
        )
    if options.save and (solution.b is None or solution.w is None or not solution.w.any()):
        raise DataError(
            f"fit: --save: expected a direction to classify by, got w = 0 or no b ({solution.status}: "
            f"{_one_line(solution.message)}); take other parameters, or leave --save out"
        )
    if not by_blocks and (hint := scale_hint(plan.data.X)):
        print(f"ucm: {hint}, and mostly improves it", file=sys.stderr)
    check = plan.verify() if options.verify else None
    numbers = plan.model if model.relative_names() else model
    answer = _answer(options, samples, numbers, solution, check)
    if options.json:
        print(as_json(answer))
    else:
        _print_answer(options, plan, answer, _origins(options, model, solution), check)
    out = console(quiet=options.json)
    if options.save and solution.b is not None:
        w = normal_in_features(plan.model, solution, plan.data.n)
        saved = Saved(numbers, w, solution.b, samples.labels, samples.zero_based, samples.names)
        say(out, f"for ucm predict: {saved.write(options.save)}")
    if options.report or options.open:
        title = f"{answer['model']} on {options.file}"
        text = page(title, "", [], [Section(title, plan, solution, check)])
        _publish(options, out, "ucm-fit.html", text)
    certified = solution.status in CERTIFIED
    if not certified:
        print(f"ucm: {solution.status}: {_one_line(solution.message)}", file=sys.stderr)
    return 0 if certified and (check is None or check.agrees) else 1


def _answer(
    options: argparse.Namespace, samples: _Samples, model: Any, solution: Solution,
    check: Verification | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the answer of `ucm fit` as JSON has it."""
    certificate = ("primal", "dual", "gap", "relative_gap", "violation", "kind")
    stats = ("solver", "setup_time", "solve_time", "iterations", "passes")
    compared = ("agrees", "objective", "reference_objective")
    return {
        "file": options.file,
        "samples": samples.X.m if isinstance(samples.X, RowSource) else samples.X.shape[0],
        "features": samples.features,
        "labels": dict(zip(("-1", "+1"), samples.labels, strict=True)),
        "model": options.model or options.model_file,
        "parameters": solution.params,
        "declaration": json.loads(to_json(model)),
        "status": solution.status,
        "message": solution.message,
        "objective": solution.objective,
        "w": solution.w,
        "b": solution.b,
        "training_accuracy": _accuracy(solution, samples.X, samples.y),
        "certificate": {name: getattr(solution.certificate, name) for name in certificate},
        "stats": {name: getattr(solution.stats, name) for name in stats},
        "verification": check and {name: getattr(check, name) for name in compared},
    }


def _print_answer(
    options: argparse.Namespace, plan: Plan, answer: dict[str, Any], origins: str,
    check: Verification | None,
) -> None:  # fmt: skip
    out, lines = console(), Table(show_header=False, box=None)
    if options.verbose:
        say(out, f"{plan.explain(True)}\n")
    certificate, stats = answer["certificate"], answer["stats"]
    for name, entry in {
        "model": answer["model"],
        "parameters": origins,
        "samples, features": f"{answer['samples']}, {answer['features']}",
        "labels -1, +1": ", ".join(answer["labels"].values()),
        "status": answer["status"],
        "objective": f"{answer['objective']:.9g}",
        "gap, relative gap": f"{abs(certificate['gap']):.3g}, {abs(certificate['relative_gap']):.3g}",
        "training accuracy": f"{answer['training_accuracy']:.4f}",
        "solver": f"{stats['solver']}, {stats['iterations']} iterations",
        "seconds": f"{stats['setup_time'] + stats['solve_time']:.3g}",
    }.items():
        lines.add_row(name, escape(entry))
    out.print(lines)
    if check is not None:
        out.print(str(check), markup=False, highlight=False)


def _origins(options: argparse.Namespace, model: Any, solution: Solution) -> str:
    """Return the parameters of a fitted model, each with the origin of its value."""
    given = parsed_values(options.param)

    def origin(name: str) -> str:
        if name in given:
            return "given"
        if name in model.relative_names():
            fraction = model.params()[name]
            return f"chosen: at {fraction:.0%} of its admissible interval"
        return "default" if options.model else "from the file"

    shown = [f"{name} = {x:.4g} ({origin(name)})" for name, x in solution.params.items()]
    return ", ".join(shown) or "none"


def _predict(options: argparse.Namespace) -> int:
    saved = Saved.read(options.classifier)
    if _by_blocks(options.file):
        scores, y = _scores_by_blocks(options, saved)
    else:
        X, y, _, names = read(
            options.file, label=options.label, features=saved.w.size, zero_based=saved.zero_based
        )
        scores = saved.decision(X, names)
    labels = np.where(scores > 0.0, saved.labels[1], saved.labels[0])
    accuracy = None if y is None else float(np.mean(labels == np.array(_as_text(y))))
    if options.json:
        answer = {"labels": labels, "scores": scores, "accuracy": accuracy}
        print(as_json({"file": options.file, "classifier": options.classifier, **answer}))
        return 0
    for label, score in zip(labels, scores, strict=True):
        print(f"{label},{score:.9g}" if options.scores else label)
    if accuracy is not None:
        print(f"ucm: accuracy {accuracy:.4f} on {labels.size} samples", file=sys.stderr)
    return 0


def _admissible(options: argparse.Namespace) -> int:
    model = _declared(options)
    X, y, *_ = _read(options)
    rows = [
        {"parameter": name, "lower": interval.lower, "upper": interval.upper, "how": interval.how}
        for name, interval in admissible(model, X, y).items()
    ]
    if options.json:
        print(as_json({row.pop("parameter"): row for row in rows}))
        return 0
    console().print(model.formula(TEXT), markup=False, highlight=False)
    return _listed(options, rows, f"{options.model or options.model_file} on {options.file}")


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "models": _models,
    "fit": _fit,
    "predict": _predict,
    "admissible": _admissible,
}


# --- input ------------------------------------------------------------------------------------
class _Samples(NamedTuple):
    """The samples and labels of a file.

    Attributes
    ----------
    X, y : samples, and labels -1 and +1
    labels : of the file, for -1 and +1
    features : number of features in the file
    zero_based : whether the indices of a LIBSVM file begin at 0
    names : of the features, or None
    """

    X: Any
    y: Any
    labels: list[str]
    features: int
    zero_based: bool | None
    names: list[str] | None


def _declared(options: argparse.Namespace) -> Any:
    """Return the model of `--model` or `--model-file` with the values of `--param`."""
    values = parsed_values(options.param)
    if options.model_file is None:
        return declare(options.model, values)
    try:
        model: Any = from_json(Path(options.model_file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # errors of ucm are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(
            f"{options.model_file}: cannot be read ({reason}); name a file of JSON that ucm.to_json wrote"
        ) from None
    if not isinstance(model, Objective):
        as_model(model, options.model_file)  # refuses other nodes
    return model.with_params(**values)


def _as_text(labels: Any) -> list[str]:
    return [f"{x:g}" if isinstance(x, float) else str(x) for x in labels.tolist()]


def _by_blocks(file: str) -> bool:
    """True if a file is read block by block: of a format in blocks, or a large CSV file."""
    path = Path(file)
    small = path.suffix.lower() == ".csv" and (not path.is_file() or path.stat().st_size < _LARGE)
    return path.suffix.lower() in SUFFIXES and not small


def _read_by_blocks(options: argparse.Namespace) -> _Samples:
    try:
        source = open_rows(options.file, options.label)
    except DataError as error:
        hint = "" if options.label else " by --label COLUMN, for a .npy file by --label FILE"
        raise DataError(f"{error}{hint}") from None
    labels = source.labels()
    text = _two_labels(options.file, labels)
    return _Samples(Labelled(source, labels[1]), None, text, source.n, None, source.features)


def _read(options: argparse.Namespace) -> _Samples:
    if Path(options.file).suffix.lower() in SUFFIXES.keys() - {".csv"}:
        raise DataError(
            f"{options.file}: expected a LIBSVM or CSV file, got one that is read block by block, as fit and "
            "predict do; write its samples as CSV"
        )
    X, raw, zero_based, names = read(options.file, label=options.label)
    labels, y = np.unique(raw, return_inverse=True)
    text = _two_labels(options.file, labels)
    return _Samples(X, 2 * y - 1, text, X.shape[1], zero_based, names)


def _two_labels(file: str, labels: Any) -> list[str]:
    text = _as_text(labels)
    if len(text) != 2:
        some = ", ".join(text[:5]) + (", ..." if len(text) > 5 else "")
        remedy = "; ucm.Classifier in Python takes several classes" if len(text) > 2 else ""
        raise DataError(f"{file}: {len(text)} different labels ({some}); expected two{remedy}")
    return text


def _scores_by_blocks(options: argparse.Namespace, saved: Saved) -> tuple[Any, Any]:
    """Return the scores and, if the file has labels, the labels."""
    labelled = True
    try:
        source = open_rows(options.file, options.label)
    except DataError:
        if options.label is not None:
            raise
        source, labelled = feature_rows(options.file, saved.names), False
    scores, labels = scored(source, saved.w[None, :], saved.names)
    return scores.ravel() + saved.b, labels if labelled else None


# --- output -----------------------------------------------------------------------------------
def _accuracy(solution: Solution, X: Any, y: Any) -> float:
    """Return the fraction of the samples on the side of their class; NaN without a classifier."""
    if solution.b is None:
        return float("nan")
    if isinstance(X, RowSource):
        scores, labels = scored(X, solution.w[None, :], None)
        return float(np.mean((scores[:, 0] + solution.b > 0.0) == (labels > 0)))
    return float(np.mean((solution.decision(X) > 0.0) == (y > 0)))


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _listed(options: argparse.Namespace, rows: list[dict[str, Any]], title: str) -> int:
    if options.json:
        print(as_json(rows))
    else:
        console().print(table(rows, title))
    return 0


def _publish(options: argparse.Namespace, out: Console, name: str, text: str) -> None:
    """Write a page, by default into a new temporary folder; show it in a browser on request."""
    file = write(options.report or Path(tempfile.mkdtemp(prefix="ucm-"), name), text)
    say(out, f"pictures, proofs and routes: {file}")
    if options.open and not webbrowser.open(file.as_uri()):
        print(f"ucm: no browser was found; open {file}", file=sys.stderr)
