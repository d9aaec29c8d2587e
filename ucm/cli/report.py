"""A self-contained page on solved models: what was declared, the pictures, the route, the proof."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ucm.cli.show import cell
from ucm.compiler.plan import Plan
from ucm.errors import DataError, UCMError
from ucm.evidence.verify import Verification
from ucm.forms.display import Raw, shown, table
from ucm.forms.solution import Solution
from ucm.language.robust import RobustMargin
from ucm.plot import ConvergenceDisplay, SetDisplay

__all__ = ["Section", "page", "write"]

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
    """One solved model.

    Attributes
    ----------
    title : of what, on which samples
    plan, solution : these two
    check : the comparison with CVXPY, where there was one
    drawn : whether it gets a picture
    """

    title: str
    plan: Plan
    solution: Solution
    check: Verification | None = None
    drawn: bool = True

    def html(self, number: int) -> str:
        model = self.plan.model
        parts: list[Any] = [
            f"<h2 id='s{number}'>{escape(self.title)}</h2>",
            f"<p class='formula'>{escape(str(model))}</p>",
            f"<p><code>{escape(repr(model))}</code></p>",
            self._picture() if self.drawn else "",
            self.solution._repr_html_(),
            "" if self.check is None else self.check._repr_html_(),
            f"<details class='wide'><summary>The route</summary>{self.plan._repr_html_()}</details>",
        ]
        return "\n".join(parts)

    def _picture(self) -> str:
        """The sets, or how the gap closed, as an image in the page; else why there is none."""
        model, data = self.plan.model, self.plan.data
        try:
            if isinstance(model, RobustMargin):
                plane = "features" if data.n == 2 else "normal"
                drawn = SetDisplay.from_model(
                    model, data.X, data.y, solution=self.solution, plane=plane
                )
                words = "Left the samples and the set of each class, right their difference U and 0"
            else:
                drawn = ConvergenceDisplay.from_solution({self.plan.solver.name: self.solution})
                words = "How the proven gap closed"
        except (UCMError, NotImplementedError) as error:
            return f"<p><em>No picture: {escape(str(error))}</em></p>"
        from matplotlib import pyplot

        buffer = io.BytesIO()
        drawn.figure_.savefig(buffer, dpi=110, format="png")
        pyplot.close(drawn.figure_)
        image = base64.b64encode(buffer.getvalue()).decode()
        return f"<img src='data:image/png;base64,{image}' alt='{escape(words)}'>"


def page(
    title: str,
    lead: str,
    rows: list[dict[str, Any]],
    sections: Sequence[Section],
) -> str:
    """The whole page: a table of all models, a row for each section, then the sections. It loads nothing."""
    names = list(rows[0]) if rows else []
    links = [
        [
            Raw(f"<a href='#s{k}'>{shown(row[n])}</a>") if n == "model" else cell(n, row[n])
            for n in names
        ]
        for k, row in enumerate(rows)
    ]
    body = [section.html(k) for k, section in enumerate(sections)]
    return "\n".join(
        [
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width'>",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1><p>{escape(lead)}</p>",
            f"<div class='wide'>{table(links, names)}</div>" if len(rows) > 1 else "",
            *body,
            "</body></html>",
        ]
    )


def write(file: str | Path, text: str, option: str = "--report") -> Path:
    """Writes a page, or another text that `option` asked for; its absolute path.

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
            f"{option} {file}: expected a file that can be written, got {error}; name another"
        ) from error
    return path
