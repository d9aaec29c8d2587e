"""Implementations of the commands of `ucm`: functions from the parsed options to the exit status."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ucm.cli.named_model import declare, defaults, model_names, parsed_values
from ucm.cli.output import Row, as_json, console, progress, publish, say, section, table
from ucm.cli.saved import Saved
from ucm.compiler.compile import compile
from ucm.data import datasets
from ucm.data.files import read
from ucm.data.readers import SUFFIXES, feature_rows, open_rows
from ucm.data.source import Labelled, RowSource
from ucm.data.validation import classes_of, scale_hint, signs_of
from ucm.errors import DataError, ParameterError
from ucm.estimators.out_of_core import scored
from ucm.forms.monitor import limit_from
from ucm.forms.solution import Solution
from ucm.language import models
from ucm.language.node import as_declared
from ucm.language.notation import TEXT
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.language.serialize import from_json, to_json
from ucm.ranges.relative_sizes import admissible

CERTIFIED = ("optimal", "local", "stationary")  # "local": the best proof for a non-convex model
DEMO_SETS = ("wine", "breast_cancer")
DEMO_MODELS = ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "coherent_mm_mpm")
DEMO_LEAD = (
    "Six classifiers, each declared as an uncertainty set and solved by the method that fits the set. "
    "The duality gap is computed from the declaration, not by the solver; CVXPY solves each declaration "
    "independently, and the last column compares the objectives."
)
_LARGE = 1 << 28  # bytes: a CSV file of this size or more is read block by block


# --- commands ---------------------------------------------------------------------------------
def _demo(options: argparse.Namespace) -> int:
    out, rows, results = console(quiet=options.json), [], []
    out.print(DEMO_LEAD)
    with progress(quiet=options.json) as step:
        for data_name in DEMO_SETS:
            X, y = datasets.load(data_name)
            for model_name in DEMO_MODELS:
                step(f"{data_name}, {model_name}: solve, certify, verify with CVXPY")
                plan = compile(declare(model_name), X, y)
                solution, check = plan.solve(), plan.verify()
                drawn = data_name == DEMO_SETS[0]  # the smaller data set
                results.append((f"{model_name} on {data_name}", plan, solution, check, drawn))
                rows.append(
                    {
                        "data": data_name,
                        "model": model_name,
                        "with": solution.params,
                        "objective": solution.objective,
                        "gap": abs(solution.certificate.relative_gap),
                        "accuracy": _accuracy(solution, X, y),
                        "seconds": solution.stats.solve_time,
                        "agrees": check.agrees and solution.status == "optimal",
                    }
                )
        agree = all(row["agrees"] for row in rows)
        page = not options.json or options.report or options.open
        if page:
            step("pictures (the first run of matplotlib also lists the fonts)")
        sections = [section(*result) for result in results if page]
    out.print(table(rows))
    out.print("all agree" if agree else "NOT all agree", style="bold")
    if options.json:
        print(as_json({"agree": agree, "rows": rows}))
    if page:
        publish(options.report, options.open, "ucm demo", DEMO_LEAD, rows, sections, quiet=options.json)
    return 0 if agree else 1


def _models(options: argparse.Namespace) -> int:
    rows = []
    for name in model_names():
        arguments = [w if x is None else f"{w}={x}" for w, x in defaults(name).items()]
        meaning = (getattr(models, name).__doc__ or "").partition("\n")[0].replace("`", "")
        model = f"{name}({', '.join(arguments)})"
        rows.append({"model": model, "mathematics": declare(name).formula(TEXT), "meaning": meaning})
    if options.json:
        print(as_json(rows))
    else:
        console().print(table(rows, "ucm.models"))
    return 0


def _fit(options: argparse.Namespace) -> int:
    model, by_blocks, page = _declared(options), _by_blocks(options.file), options.report or options.open
    if by_blocks and page:
        raise ParameterError(
            f"fit: --report and --open draw samples in memory, got {options.file}, which is read block by "
            "block; leave them out"
        )
    if by_blocks and (names := model.relative_names()):
        raise ParameterError(
            f"fit: expected a value of {names[0]}, which is chosen for samples in memory only, got "
            f"{options.file}; write --param {names[0]}=VALUE"
        )
    samples = _read(options)
    quiet = options.json or options.verbose or not (by_blocks and Console(stderr=True).is_terminal)
    with progress(quiet) as step:
        began = time.perf_counter()
        plan = compile(model, samples.X, samples.y, solver=options.solver)
        solution = plan.solve(
            tol=options.tol,
            max_iter=options.max_iter,
            time_limit=limit_from(options.time_limit, began),
            verbose=options.verbose and not options.json,
            callback=lambda record: step(f"iteration {record['iteration']}, gap {record['gap']:.1e}"),
        )
    message, b = " ".join(solution.message.split()), solution.b
    if options.save and (b is None or solution.w is None or not solution.w.any()):
        raise DataError(
            f"fit: --save: expected a direction to classify by, got w = 0 or no b ({solution.status}: "
            f"{message}); take other parameters, or leave --save out"
        )
    if not by_blocks and (hint := scale_hint(plan.data.X)):
        print(f"ucm: {hint}, and mostly improves it", file=sys.stderr)
    check = plan.verify() if options.verify else None
    declaration = json.loads(to_json(plan.model if model.relative_names() else model))
    certificate, stats = vars(solution.certificate), vars(solution.stats)
    answer = {
        "file": options.file,
        "samples": plan.data.m,
        "features": plan.data.n,
        "labels": dict(zip(("-1", "+1"), samples.labels, strict=True)),
        "model": options.model or options.model_file,
        "parameters": solution.params,
        "declaration": declaration,
        "status": solution.status,
        "message": solution.message,
        "objective": solution.objective,
        "w": solution.w,
        "b": b,
        "training_accuracy": _accuracy(solution, samples.X, samples.y),
        "certificate": {n: certificate[n] for n in ("primal", "dual", "gap", "violation", "kind")}
        | {"relative_gap": solution.certificate.relative_gap},
        "stats": stats,
        "verification": check
        and {n: getattr(check, n) for n in ("agrees", "objective", "reference_objective")},
    }
    if options.json:
        print(as_json(answer))
    else:
        if options.verbose:
            say(f"{plan.explain(True)}\n")
        origins = dict.fromkeys(solution.params, "default" if options.model else "from the file")
        for name in model.relative_names():
            origins[name] = f"chosen: at {model.params()[name]:.0%} of its admissible interval"
        origins |= dict.fromkeys(parsed_values(options.param), "given")
        _print_answer(answer, [f"{name} = {x:.4g} ({origins[name]})" for name, x in solution.params.items()])
        if check is not None:
            say(str(check))
    if options.save and b is not None:
        w = solution.w if solution.normal is None else solution.normal
        saved = Saved(declaration, w.tolist(), b, samples.labels, samples.zero_based, samples.names)
        path = saved.write(options.save)
        say(f"for ucm predict: {path}", console(options.json))
    if page:
        title = f"{answer['model']} on {options.file}"
        sections = [section(title, plan, solution, check)]
        publish(options.report, options.open, title, "", [], sections, quiet=options.json)
    certified = solution.status in CERTIFIED
    if not certified:
        print(f"ucm: {solution.status}: {message}", file=sys.stderr)
    return 0 if certified and (check is None or check.agrees) else 1


def _print_answer(answer: Row, parameters: list[str]) -> None:
    lines, certificate, stats = Table(show_header=False, box=None), answer["certificate"], answer["stats"]
    for name, entry in {
        "model": answer["model"],
        "parameters": ", ".join(parameters) or "none",
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
    console().print(lines)


def _predict(options: argparse.Namespace) -> int:
    saved = Saved.read(options.classifier)
    if _by_blocks(options.file):
        scores, y = _scores_by_blocks(options, saved)
    else:
        n = len(saved.w)
        X, y, _, names = read(options.file, label=options.label, features=n, zero_based=saved.zero_based)
        scores = saved.decision(X, names)
    if not np.isfinite(scores).all():
        raise DataError(f"{options.file}: expected finite scores, got an overflow; scale the features")
    labels = np.where(scores > 0.0, saved.labels[1], saved.labels[0])
    accuracy = None if y is None else float(np.mean(labels == np.array([_as_text(x) for x in y.tolist()])))
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
    model, samples = _declared(options), _read(options)
    rows: list[Row] = [
        {"parameter": name, "lower": interval.lower, "upper": interval.upper, "how": interval.how}
        for name, interval in admissible(model, samples.X, samples.y).items()
    ]
    if options.json:
        print(as_json({row.pop("parameter"): row for row in rows}))
        return 0
    say(model.formula(TEXT))
    console().print(table(rows, f"{options.model or options.model_file} on {options.file}"))
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "models": _models,
    "fit": _fit,
    "predict": _predict,
    "admissible": _admissible,
}


# --- input ------------------------------------------------------------------------------------
class _Samples(NamedTuple):
    """The samples, labels and feature names of a file."""

    X: Any
    y: Any  # -1 and +1; None if X is a row source, which has its own labels
    labels: tuple[str, str]  # of the file, for -1 and +1
    zero_based: bool | None  # whether the indices of a LIBSVM file begin at 0
    names: list[str] | None  # of the features


def _declared(options: argparse.Namespace) -> RobustMargin | Objective:
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
    as_declared(model, options.model_file)  # refuses other nodes
    return model.with_params(**values)


def _by_blocks(file: str) -> bool:
    """True if a file is read block by block: a format of `SUFFIXES`, but no CSV file below `_LARGE` bytes."""
    path = Path(file)
    small = path.suffix.lower() == ".csv" and (not path.is_file() or path.stat().st_size < _LARGE)
    return path.suffix.lower() in SUFFIXES and not small


def _read(options: argparse.Namespace) -> _Samples:
    """Return the samples of a file, in memory or as an open row source."""
    try:
        if _by_blocks(options.file):
            source = open_rows(options.file, options.label)
            classes, _ = classes_of(source.labels())
            X, y, zero_based, names = Labelled(source, classes[1]), None, None, source.features
        else:
            X, raw, zero_based, names = read(options.file, label=options.label)
            y, classes = signs_of(raw)
    except DataError as error:
        raise DataError(f"{options.file}, --label {options.label or 'left out'}: {error}") from None
    return _Samples(X, y, (_as_text(classes[0]), _as_text(classes[1])), zero_based, names)


def _as_text(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _scores_by_blocks(options: argparse.Namespace, saved: Saved) -> tuple[Any, Any]:
    """Return the decision values and the labels of a file read block by block; None without labels."""
    try:
        source, labelled = open_rows(options.file, options.label), True
    except DataError:
        if options.label is not None:
            raise
        source, labelled = feature_rows(options.file, saved.names), False
    scores, labels = scored(source, np.array([saved.w]), saved.names)
    return scores.ravel() + saved.b, labels if labelled else None


def _accuracy(solution: Solution, X: Any, y: Any) -> float:
    """Return the fraction of correctly classified samples; NaN if the solution has no bias."""
    if solution.b is None:
        return float("nan")
    if isinstance(X, RowSource):
        scores, y = scored(X, solution.w[None, :], None)
        decision = scores[:, 0] + solution.b
    else:
        decision = solution.decision(X)
    return float(np.mean((decision > 0.0) == (y > 0)))
