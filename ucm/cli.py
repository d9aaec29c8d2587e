"""The command `ucm`: demo, models, fit, predict, admissible, compare, warm, bench.

Exit status: 0 done and certified, 1 an answer without the certificate or agreement asked for,
2 bad input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from scipy import sparse

import ucm
from ucm import __version__, bench, numerics
from ucm.bench.choose import declare, model_names, parameters, refuse_open, sample
from ucm.bench.clock import timed
from ucm.bench.judge import accuracy, figures
from ucm.bench.report import Section, page, write
from ucm.bench.show import as_json, as_they_come, console, kept, line_by_line, table
from ucm.compiler.compile import compile
from ucm.compiler.plan import Plan
from ucm.data import datasets
from ucm.data.bound import bind
from ucm.data.files import read
from ucm.data.source import Labelled, Rounds, RowSource, Watched
from ucm.data.stored import SUFFIXES, feature_rows, is_stored, row_source
from ucm.errors import ConvergenceWarning, DataError, ParameterError, UCMError
from ucm.estimators.over_rows import scored
from ucm.estimators.saved import Saved
from ucm.estimators.validation import normal_in_features
from ucm.evidence.relative import admissible, with_relative_sizes
from ucm.forms.monitor import check_time_limit, time_left
from ucm.language import models
from ucm.language.json import from_json, to_json
from ucm.language.node import TEXT
from ucm.language.objective import Objective
from ucm.language.robust import as_model
from ucm.numerics._cache import MODULES

__all__ = ["main"]

CERTIFIED = ("optimal", "local", "stationary")  # a non-convex model has no proof of more
DEMO_SETS = ("wine", "breast_cancer")
DEMO_MODELS = ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "coherent_mm_mpm")
COMPARED = (
    "nu_svm", "l2_nu_svm", "kl_svm", "mm_mpm", "mm_fda", "svm", "one_norm_svm", "psvm",
)  # fmt: skip

BY_BLOCKS = (
    f"A FILE that ends with {', '.join(SUFFIXES)} is read block by block, of .csv from 256 MB on; its COLUMN "
    "is a name, of .npy a file of labels."
)

_LARGE = 1 << 28  # bytes of a CSV file

DEMO_COLUMNS = (
    "data", "model", "with", "objective", "gap", "accuracy", "seconds", "agrees",
)  # fmt: skip
DEMO_LEAD = (
    "Six classifiers, each declared as an uncertainty set and solved by the method that fits it. The gap "
    "is proven from the declaration, which no solver sees; CVXPY solves what is declared once more."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        options = _parser(with_benches=given[:1] == ["bench"]).parse_args(given)
        # status and gap are printed in any case
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
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


def _parser(with_benches: bool) -> argparse.ArgumentParser:
    """The parser; the names of the benches, which load every solver, where they are asked for."""
    parser = _Parser(prog="ucm", description="Declare, solve, certify and verify classifiers.")
    parser.add_argument("--version", action="version", version=f"ucm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, what: str, run: Any) -> Any:
        sub = commands.add_parser(name, help=what, description=what)
        sub.set_defaults(run=run)
        sub.add_argument(
            "--json", action="store_true", help="print JSON; infinite numbers are null"
        )
        return sub

    def of_a_file(sub: Any) -> None:
        sub.add_argument("file", metavar="FILE", help="samples and labels, LIBSVM or CSV")
        sub.add_argument("--label", metavar="COLUMN", help="of a CSV file: first, last or a name")

    def on_a_file(sub: Any) -> None:
        of_a_file(sub)
        model = sub.add_mutually_exclusive_group(required=True)
        model.add_argument("--model", metavar="NAME", help="see ucm models")
        model.add_argument("--declaration", metavar="JSON", help="a file that ucm.to_json wrote")
        sub.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter's value"
        )

    demo = command("demo", "six models on real data: solved, certified, verified by CVXPY", _demo)
    demo.add_argument(
        "--report", metavar="FILE", help="the page to write (default: a temporary one)"
    )
    demo.add_argument("--open", action="store_true", help="show the page in a browser")
    command("models", "the named models, with their mathematics", _models)
    fit = command("fit", "fit a model to a file", _fit)
    on_a_file(fit)
    fit.epilog = BY_BLOCKS
    fit.add_argument("--solver", default="auto", metavar="NAME", help="default: by the route table")
    fit.add_argument("--tol", type=float, default=1e-6, help="relative gap (default: 1e-6)")
    fit.add_argument("--max-iter", type=int, help="limit of iterations")
    fit.add_argument("--time-limit", type=float, metavar="SECONDS", help="for compile and solve")
    fit.add_argument("--verify", action="store_true", help="compare with the CVXPY twin")
    fit.add_argument("--verbose", action="store_true", help="iterations, and every route")
    fit.add_argument("--save", metavar="JSON", help="write the classifier, for ucm predict")
    fit.add_argument("--report", metavar="FILE", help="write a page with pictures, as HTML")
    fit.add_argument("--open", action="store_true", help="show the page in a browser")
    predict = command("predict", "the labels of samples by a classifier that fit saved", _predict)
    predict.add_argument("classifier", metavar="JSON", help="what ucm fit --save wrote")
    of_a_file(predict)
    predict.epilog = BY_BLOCKS
    predict.add_argument(
        "--scores", action="store_true", help="w'x + b beside each label, separated by a comma"
    )
    on_a_file(command("admissible", "where the model is not trivial on a file", _admissible))
    several = command("compare", "score models on the same folds of a file", _compare)
    of_a_file(several)
    several.add_argument(
        "--models", metavar="NAMES", help=f"separated by commas (default: {','.join(COMPARED)})"
    )
    several.add_argument("--folds", type=int, default=5, metavar="K", help="default: 5")
    several.add_argument(
        "--scoring", metavar="NAME", help="a score of scikit-learn (default: accuracy)"
    )
    several.add_argument(
        "--no-search",
        action="store_true",
        help="sizes at half of their intervals, not chosen by inner folds",
    )
    warm = command("warm", "compile the compiled functions into the disk cache", _warm)
    warm.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"some of {', '.join(MODULES)} (default: all)"
    )
    benchmark = command("bench", "run a benchmark; without a name, list them", _bench)
    benchmark.set_defaults(name=None)
    named = benchmark.add_subparsers(dest="name", metavar="NAME")
    for chosen in bench.every() if with_benches else ():
        sub = named.add_parser(
            chosen.name, help=chosen.what, description=chosen.what, conflict_handler="resolve"
        )
        sub.add_argument(
            "--quick", action="store_true", help="the first two sets of every part, two repeats"
        )
        sub.add_argument(
            "part", nargs="?", metavar="PART", help=f"only one of {', '.join(chosen.parts)}"
        )
        sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
        sub.add_argument("--save", metavar="FILE", help="write the rows, as JSON")
        if chosen.arguments is not None:
            chosen.arguments(sub)
    return parser


# --- commands ---------------------------------------------------------------------------------
def _demo(options: argparse.Namespace) -> int:
    out, rows, sections = console(quiet=options.json), [], []
    every = [(data, model) for data in DEMO_SETS for model in DEMO_MODELS]
    out.print(DEMO_LEAD)
    errors = Console(stderr=True, quiet=options.json)
    hidden = not errors.is_terminal
    with Progress(console=errors, transient=True, auto_refresh=False, disable=hidden) as progress:
        task = progress.add_task("", total=2 * len(every))

        def step(what: str, advance: int = 1) -> None:
            progress.update(task, description=what, advance=advance, refresh=True)

        for set_name, model_name in every:
            step(f"{set_name}, {model_name}", 0)
            X, y = datasets.load(set_name)
            plan = compile(declare(model_name, {}, X, y), X, y)
            row, section = _demo_row(set_name, model_name, plan, X, y)
            rows.append(row)
            sections.append(section)
            step("", 1)
        shown = [{name: row[name] for name in DEMO_COLUMNS} for row in rows]
        agree = all(row["agrees"] and row["status"] == "optimal" for row in rows)
        wanted = not options.json or options.report or options.open
        file = (options.report or _temporary("ucm-demo.html")) if wanted else None
        if file:
            step("pictures", 0)
            text = page("ucm demo", DEMO_LEAD, shown, sections, lambda: step("pictures"))
            file = write(file, text)
    previous = ""
    for row in shown:
        row["data"], previous = ("" if row["data"] == previous else row["data"]), row["data"]
    out.print(table(shown, ""))
    if rows[0]["seconds"] > 1.0:
        out.print("The first solve of an installation also compiles its solver.")
    out.print("all agree" if agree else "NOT all agree", style="bold")
    if options.json:
        print(as_json({"agree": agree, "rows": rows}))
    if file:
        _announce(out, file, options.open)
    return 0 if agree else 1


def _demo_row(
    set_name: str, model_name: str, plan: Plan, X: Any, y: Any
) -> tuple[dict[str, Any], Section]:
    solution, seconds = timed(plan.solve)
    check = plan.verify()
    drawn = set_name == DEMO_SETS[0]  # the smaller one
    row = {
        "data": set_name,
        "model": model_name,
        "with": plan.model.params(),
        **figures(solution, "status objective"),
        "CVXPY": check.reference_objective,
        **figures(solution, "gap"),
        "accuracy": accuracy(solution, X, y),
        "passes": solution.stats.passes,
        "seconds": seconds,
        "agrees": bool(check.agrees),
    }
    return row, Section(f"{model_name} on {set_name}", plan, solution, check, drawn)


def _warm(options: argparse.Namespace) -> int:
    unknown = [name for name in options.modules if name not in MODULES]
    if unknown:
        raise ParameterError(f"warm: no module {unknown[0]!r}; known are {', '.join(MODULES)}")
    rows = []
    for name in options.modules or MODULES:
        rows.append({"module": name, "seconds": numerics.warm((name,))[name]})
        if not options.json:
            print(f"{name:<12}  {rows[-1]['seconds']:6.2f} s", flush=True)
    if options.json:
        print(as_json(rows))
    return 0


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
        refuse_open(options.model, _values(options.set), options.file)
    if stored and (options.report or options.open):
        raise ParameterError(
            f"fit: --report and --open draw all samples, got {options.file}, which is read block by block; "
            "leave them out"
        )
    X, y, labels, features, columns, zero_based, names = (
        _rows(options) if stored else _read(options)
    )
    if model is None:
        model = declare(options.model, _values(options.set), X, y)
    with _passes(X, options) as (X, told):
        began = time.perf_counter()
        plan = compile(model, X, y, solver=options.solver)
        solution = plan.solve(
            tol=options.tol,
            max_iter=options.max_iter,
            time_limit=time_left(options.time_limit, began),
            verbose=options.verbose and not options.json,
            callback=told,
        )
    if options.save and (solution.b is None or solution.w is None or not solution.w.any()):
        raise DataError(
            f"fit: --save: expected a direction to classify by, got w = 0 or no b ({solution.status}: "
            f"{' '.join(solution.message.split())}); take other parameters, or leave --save out"
        )
    check = plan.verify() if options.verify else None
    share, certificate, stats = accuracy(solution, X, y), solution.certificate, solution.stats
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
            "model": options.model or options.declaration,
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
        out.print(plan.explain(options.verbose), markup=False, highlight=False, soft_wrap=True)
        out.print()
        for name, entry in {
            "samples, features": f"{m}, {features}",
            **({} if columns is None else {"features that occur": f"{columns.size}"}),
            "labels -1, +1": escape(", ".join(labels)),
            "status": solution.status,
            "objective": f"{solution.objective:.9g}",
            "gap, relative": f"{certificate.gap:.3g}, {certificate.relative_gap:.3g}",
            "training accuracy": f"{share:.4f}",
            "solver": f"{stats.solver}, {stats.iterations} iterations, {stats.passes:.4g} passes",
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
        title = f"{options.model or options.declaration} on {options.file}"
        section = Section(title, plan, solution, check)
        file = write(options.report or _temporary("ucm-fit.html"), page(title, "", [], [section]))
        _announce(console(quiet=options.json), file, options.open)
    certified = solution.status in CERTIFIED
    if not certified:
        print(f"ucm: {solution.status}: {' '.join(solution.message.split())}", file=sys.stderr)
    return 0 if certified and (check is None or check.agrees) else 1


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
        model = sample(options.model, _values(options.set))
    X, y, *_ = _read(options)
    rows = [
        {"parameter": name, "lower": interval.lower, "upper": interval.upper, "how": interval.how}
        for name, interval in admissible(model, X, y).items()
    ]
    if options.json:
        print(as_json({row.pop("parameter"): row for row in rows}))
        return 0
    console().print(str(model), markup=False, highlight=False)
    return _listed(options, rows, f"{options.model or options.declaration} on {options.file}")


def _compare(options: argparse.Namespace) -> int:
    names = COMPARED if options.models is None else options.models.split(",")
    declared = {name: sample(name) for name in names}
    X, y, labels, features, *_ = _read(options)
    data = bind(X, y)
    found = ucm.compare(  # loads scikit-learn
        {name: with_relative_sizes(model, data) for name, model in declared.items()},
        X,
        y,
        cv=options.folds,
        scoring=options.scoring,
        search=None if options.no_search else "relative sizes",
        progress=not options.json,
    )
    if options.json:
        answer = {
            "file": options.file,
            "samples": X.shape[0],
            "features": features,
            "labels": dict(zip(("-1", "+1"), labels, strict=True)),
            "scoring": found.scoring,
            "folds": found.folds,
            "rows": found.rows(),
            "note": found.note,
        }
        print(as_json(answer))
    else:
        console().print(str(found), markup=False, highlight=False, soft_wrap=True)
    return 1 if any(one.failures for one in found) else 0


def _bench(options: argparse.Namespace) -> int:
    if options.name is None:
        rows = []
        for b in bench.every():
            parts = ", ".join(b.parts) if len(b.parts) > 1 else ""
            rows.append({"name": b.name, "measures": b.what, "parts": parts})
        return _listed(options, rows, "ucm bench NAME [PART]")
    chosen = bench.get(options.name)
    general = {"command", "run", "json", "name", "part", "save"}
    own = {word: given for word, given in vars(options).items() if word not in general}
    rows: list[dict[str, Any]] = []
    work = kept(chosen.rows(options.part, **own), rows)
    try:
        if chosen.printed is not None:
            line_by_line(work, chosen.printed, quiet=options.json)
        else:
            as_they_come(work, chosen.what, quiet=options.json)
    finally:  # one that is interrupted leaves the rows so far
        text = as_json({"name": chosen.name, "ucm": __version__, "rows": rows})
        if options.save and rows:
            write(options.save, text, "--save")
    if options.json:
        print(text)
    return 0 if all(row.get("within") is not False for row in rows) else 1


# --- input ------------------------------------------------------------------------------------
class _Table(NamedTuple):
    """What stands in a file.

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
    if options.declaration is None:
        parameters(options.model)
        return None
    try:
        model: Any = from_json(Path(options.declaration).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # UCM's own among them
        what = error.strerror if isinstance(error, OSError) else error
        raise DataError(
            f"{options.declaration}: cannot be read ({what}); name a file of JSON that ucm.to_json wrote"
        ) from None
    if not isinstance(model, Objective):
        as_model(model, options.declaration)  # or it is none
    return model.with_params(**_values(options.set))


def _words(labels: Any) -> list[str]:
    """Labels as they are printed."""
    return [f"{x:g}" if isinstance(x, float) else str(x) for x in labels.tolist()]


def _by_blocks(file: str) -> bool:
    """Whether a file is read block by block; a CSV file where it is large."""
    path = Path(file)
    small = path.suffix.lower() == ".csv" and (not path.is_file() or path.stat().st_size < _LARGE)
    return is_stored(file) and not small


def _rows(options: argparse.Namespace) -> _Table:
    """A file that is read block by block."""
    source = row_source(options.file, options.label)
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

        def before(_: Rounds, number: int) -> None:
            progress.update(bar, description=f"pass {number}{gap}", refresh=True)

        def told(record: dict[str, Any]) -> None:
            nonlocal gap
            gap = f", gap {record['gap']:.1e}"

        yield Watched(X, before), told


def _scores(options: argparse.Namespace, saved: Saved) -> tuple[Any, Any]:
    """The scores of a file that is read block by block, and its labels where it has some."""
    labelled = True
    try:
        source = row_source(options.file, options.label)
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
    if is_stored(options.file) and Path(options.file).suffix.lower() != ".csv":
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
                f"--set {text}: {name} is set before, to {values[name]:g}; set it once"
            )
        try:
            values[name] = float(number)
        except ValueError:
            equals = ""
        if not (equals and name):
            raise ParameterError(f"--set {text}: expected NAME=VALUE with a number, as nu=0.3")
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
