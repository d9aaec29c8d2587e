"""A self-contained page on solved models: declaration, picture, proof, verification and route of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ucm.cli.show import cell
from ucm.compiler.plan import Plan
from ucm.errors import DataError, UCMError
from ucm.evidence.reference import Verification
from ucm.forms.display import Raw, shown, table
from ucm.forms.solution import Solution
from ucm.language.robust import RobustMargin
from ucm.plot import ConvergenceDisplay, SetDisplay

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


@dataclass(frozen=True)
class Section:
    """A solved model.

    Attributes
    ----------
    title : name of the model and of the samples
    plan, solution : of the model
    check : the comparison with CVXPY, or None
    drawn : whether the section has a picture
    """

    title: str
    plan: Plan
    solution: Solution
    check: Verification | None = None
    drawn: bool = True

    def html(self, number: int) -> str:
        """Return the section with the anchor `s<number>`."""
        model = self.plan.model
        return "\n".join(
            [
                f"<h2 id='s{number}'>{escape(self.title)}</h2>",
                f"<p class='formula'>{escape(str(model))}</p>",
                f"<p><code>{escape(repr(model))}</code></p>",
                self._picture() if self.drawn else "",
                self.solution._repr_html_(),
                "" if self.check is None else self.check._repr_html_(),
                f"<details class='wide'><summary>The route</summary>{self.plan._repr_html_()}</details>",
            ]
        )

    def _picture(self) -> str:
        """Return a picture of the sets, or of the convergence, or the reason for none."""
        plan, solution = self.plan, self.solution
        try:
            if isinstance(plan.model, RobustMargin):
                plane = "features" if plan.data.n == 2 else "normal"
                X, y = plan.data.X, plan.data.y
                shown: Any = SetDisplay.from_model(plan.model, X, y, solution=solution, plane=plane)
                text = "Left the samples and the set of each class, right their difference U and 0"
            else:
                shown = ConvergenceDisplay.from_solution(solution)
                text = "The convergence of the proven gap"
        except (UCMError, NotImplementedError) as error:
            return f"<p><em>No picture: {escape(str(error))}</em></p>"
        return f"<img src='{shown.image(dpi=110)}' alt='{escape(text)}'>"


def page(title: str, lead: str, rows: list[dict[str, Any]], sections: Sequence[Section]) -> str:
    """Return a page that loads nothing: a table with a row for each section, if several, and the sections."""
    entries = [
        [
            Raw(f"<a href='#s{k}'>{shown(entry)}</a>") if name == "model" else cell(name, entry)
            for name, entry in row.items()
        ]
        for k, row in enumerate(rows)
    ]
    return "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width'>",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1><p>{escape(lead)}</p>",
            f"<div class='wide'>{table(entries, list(rows[0]))}</div>" if rows else "",
            *(section.html(k) for k, section in enumerate(sections)),
            "</body></html>",
        ]
    )


def write(file: str | Path, text: str) -> Path:
    """Write a page; return its absolute path.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    path = Path(file).absolute()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"--report {file}: expected a file that can be written, got {error}; name another"
        ) from error
    return path
