"""Output of the commands: progress, terminal tables, JSON, and a self-contained HTML page."""

from __future__ import annotations

import json
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape as escaped
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ucm.compiler.plan import Plan
from ucm.errors import DataError, UCMError
from ucm.evidence.reference import Verification
from ucm.forms.display import table as html_table
from ucm.forms.solution import Solution
from ucm.language.notation import TEXT
from ucm.language.robust import RobustMargin
from ucm.plot import ConvergenceDisplay, SetDisplay

Row = dict

_FORMATS = {"gap": ".1e", "accuracy": ".1%", "seconds": ".2g"}
_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 3rem; border-top: 1px solid #8888; padding-top: 1rem }
.formula { font-family: "Latin Modern Math", "STIX Two Math", Cambria, serif; font-size: 1.1rem }
img { max-width: 100%; border-radius: 4px }
table { font-variant-numeric: tabular-nums }
td, th { font-size: .95rem }
.wide { overflow-x: auto }
"""


# --- terminal ---------------------------------------------------------------------------------
def console(quiet: bool = False) -> Console:
    """Return a rich console on standard output, 100 columns wide unless standard output is a terminal."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 100)


def say(text: str, out: Console | None = None) -> None:
    """Print a text verbatim, without markup, highlighting or wrapping by rich."""
    (out or console()).print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step on standard error, unless `quiet`."""
    errors = Console(stderr=True, quiet=quiet)
    if errors.is_terminal:
        with errors.status("") as status:
            yield lambda text: status.update(escape(text))
    else:
        yield lambda text: say(text, errors)


def table(rows: list[Row], title: str = "") -> Table:
    """Return a rich table of the rows, with the keys of the first row as columns."""
    columns = Table(
        title=f"\n{escape(title)}" if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    for name, entry in (rows[0] if rows else {}).items():
        numeric = isinstance(entry, float | int)
        columns.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        columns.add_row(*(escape(_cell(name, entry)) for name, entry in row.items()))
    return columns


def _cell(name: str, entry: object) -> str:
    """Return a table entry as text, in the format of the column `name`."""
    match entry:
        case bool():
            return "yes" if entry else "NO"
        case float():
            return format(entry, _FORMATS.get(name, ".4g"))
        case dict():
            return ", ".join(f"{TEXT.symbol(name)}={value:.3g}" for name, value in entry.items())
    return str(entry)


def write(path: str | Path, text: str, what: str) -> Path:
    """Write a text file, and return its absolute path; raise `DataError` if it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError for a path with a NUL character
        reason = getattr(error, "strerror", error)
        raise DataError(f"{what} {str(path)!r}: cannot be written ({reason}); name another file") from None
    return Path(path).absolute()


def as_json(document: object) -> str:
    """Return a document as JSON text, with null in place of NaN and infinities."""
    text = json.dumps(document, default=lambda array: array.tolist())
    return json.dumps(json.loads(text, parse_constant=lambda name: None), indent=2)


# --- page -------------------------------------------------------------------------------------
def section(
    title: str, plan: Plan, solution: Solution, check: Verification | None = None, drawn: bool = True
) -> str:
    """Return the HTML section of a solved model: declaration, picture, solution, verification and route."""
    model = plan.model
    return "\n".join(
        [
            f"<h2>{escaped(title)}</h2>",
            f"<p class='formula'>{escaped(str(model))}</p>",
            f"<p><code>{escaped(repr(model))}</code></p>",
            _picture(plan, solution) if drawn else "",
            solution._repr_html_(),
            "" if check is None else check._repr_html_(),
            f"<details class='wide'><summary>The route</summary>{plan._repr_html_()}</details>",
        ]
    )


def _picture(plan: Plan, solution: Solution) -> str:
    """Return the HTML image of the sets or of the convergence, or a note with the reason for no picture."""
    model, data = plan.model, plan.data
    try:
        if isinstance(model, RobustMargin):
            plane = "features" if data.n == 2 else "normal"
            sets = SetDisplay.from_model(model, data.X, data.y, solution=solution, plane=plane)
            source = sets.image(dpi=110)
            text = "Left the samples and the set of each class, right their difference U and 0"
        else:
            source = ConvergenceDisplay.from_solution(solution).image(dpi=110)
            text = "The convergence of the proven gap"
    except (UCMError, NotImplementedError) as error:
        return f"<p><em>No picture: {escaped(str(error))}</em></p>"
    return f"<img src='{source}' alt='{text}'>"


def publish(
    file: str | None,
    browser: bool,
    title: str,
    lead: str,
    rows: list[Row],
    sections: Sequence[str],
    quiet: bool,
) -> None:
    """Write a self-contained HTML page; print its path unless `quiet`; with `browser` open it."""
    entries = [[_cell(name, entry) for name, entry in row.items()] for row in rows]
    page = "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width'>",
            f"<title>{escaped(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escaped(title)}</h1><p>{escaped(lead)}</p>",
            f"<div class='wide'>{html_table(entries, rows[0])}</div>" if rows else "",
            *sections,
            "</body></html>",
        ]
    )
    path = write(file or Path(tempfile.mkdtemp(prefix="ucm-"), "report.html"), page, "--report")
    say(f"pictures, proofs and routes: {path}", console(quiet))
    if browser and not webbrowser.open(path.as_uri()):
        print(f"ucm: no browser was found; open {path}", file=sys.stderr)
