"""`SetAnimation`: pictures of a set for several parameter values, side by side or with an HTML slider."""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.errors import ParameterError
from ucm.language.notation import LATEX
from ucm.language.objective import Objective
from ucm.plot.outline import Frame
from ucm.plot.path import path_over
from ucm.plot.problem import Problem, class_names, feature_names, plane_of
from ucm.plot.sets import PANELS, SetDisplay
from ucm.plot.style import Display, palette, pyplot

_COUNT = 16  # default number of values


@dataclass(repr=False)
class SetAnimation(Display):
    """A series of `SetDisplay` pictures over the values of one parameter, with a slider in HTML.

    A notebook shows an animation with a slider that needs neither a kernel nor a network; `to_html` writes
    the slider to a page.

    Attributes
    ----------
    name, values : the parameter and its values
    displays : the picture of each value
    axes_, figure_ : of the last `plot`
    """

    name: str
    values: NDArray[np.float64]
    displays: list[SetDisplay]

    @classmethod
    def from_model(
        cls, model: object, X: object, y: ArrayLike, *, plane: object = None, n_frames: int = 4,
        panels: str = "both", rtol: float = 4e-3, ax: object = None, **options: Any,
    ) -> SetAnimation:  # fmt: skip
        """Solve a model for every value of a parameter, and draw `n_frames` of the pictures side by side.

        Parameters
        ----------
        model, X, y : as in `ucm.path`
        plane, rtol : as in `SetDisplay.from_model`; the plane "normal" is that of the first value
        n_frames, panels, ax : as in `plot`
        options : the parameter with its values, as `nu=[0.2, 0.3]`, and other options of `ucm.path`. Without
            values, 16 values of the only parameter, over its admissible interval and beyond the end at which
            0 enters U.

        Raises
        ------
        ParameterError
            No values, and the model has no parameter or several.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> animation = ucm.plot.SetAnimation.from_model(
        ...     ucm.models.mm_mpm(0.3), X[:, [0, 6]], y, kappa=[0.2, 0.6], n_frames=2
        ... )
        >>> len(animation.displays)
        2
        """
        solved = path_over(model, X, y, _COUNT, options, "SetAnimation")
        if solved.data is None or isinstance(solved.model, Objective):
            raise ParameterError(f"SetAnimation: expected a set in memory, got {model!r}")
        names, displays = feature_names(X), []
        classes = class_names(y, options.get("pos_label"))
        for solution in solved:
            declared = solved.model.with_params(**solution.params)
            problem = Problem(declared, solved.data, solution, names, classes)
            if isinstance(plane, str) and plane == "normal":
                plane = plane_of(plane, problem.data, solution.w, None, "SetAnimation").P
            displays.append(SetDisplay._of_problem(problem, plane, rtol))
        frames = _common_frames(displays)
        for display in displays:
            display.frames = frames
        return cls(solved.name, solved.values, displays).plot(ax, n_frames=n_frames, panels=panels)

    def title(self, k: int) -> str:
        """Return the title of the k-th picture: the parameter and its value, as `$\\nu = 0.3$`."""
        return f"${LATEX.symbol(self.name)} = {self.values[k]:.3g}$"

    def plot(self, ax: object = None, *, n_frames: int = 4, panels: str = "both") -> SetAnimation:
        """Draw `n_frames` of the pictures side by side, with one row for each panel.

        Parameters
        ----------
        ax : None for a new figure, or the axes: a row for each panel
        n_frames : number of values, at equal distances
        panels : "both", "classes" or "set"
        """
        rows = self.displays[0]._panels(panels)
        last = len(self.values) - 1
        columns = np.unique(np.linspace(0, last, max(n_frames, 1)).round().astype(int))
        with self._axes(ax, len(rows), columns.size, (3.3, 3.4)) as axes:
            for (panel, k), a in zip(product(rows, columns), axes):
                self.displays[k].draw(a, panel, labelled=False)
                title = self.title(k) if panel == rows[0] else ""
                a.set(xlabel="", ylabel="", xticks=[], yticks=[], title=title)
                if panel == "set" and self.displays[k].zero_inside:
                    a.set_title(f"{title}   $0 \\in U$".strip(), color=palette(a).alert)
            self.axes_ = axes.reshape(len(rows), columns.size)
        return self

    def _repr_html_(self) -> str:
        """Return a self-contained HTML element with a slider over all pictures."""
        name, labels, images = html.escape(self.name), [f"{v:.4g}" for v in self.values], []
        for k, (display, label) in enumerate(zip(self.displays, labels)):
            with pyplot().ioff():
                figure, ink = display.plot().figure_, palette(display.ax_).ink
                figure.suptitle(self.title(k), fontsize=16, x=0.02, ha="left", color=ink)
                source = display.image(dpi=80)
            style = f"display:{'none' if k else 'block'};max-width:100%"
            images.append(f"<img src='{source}' alt='{name} = {label}' style='{style}'>")
        move = (
            "var f=this.closest('.ucm-animation'),k=+this.value;"
            "f.querySelector('output').value=this.dataset.values.split(' ')[k];"
            "f.querySelectorAll('img').forEach(function(e,i){e.style.display=i==k?'block':'none'})"
        )
        return (
            "<div class='ucm-animation'>"
            "<label style='display:flex;gap:1em;align-items:center;font-family:monospace'>"
            f"<span>{name} = <output>{labels[0]}</output></span>"
            f"<input type='range' min='0' max='{len(labels) - 1}' value='0' style='flex:1;max-width:30em' "
            f"data-values='{' '.join(labels)}' oninput=\"{move}\"></label>"
            f"<div>{''.join(images)}</div></div>"
        )

    def to_html(self, file: str | Path | None = None) -> str:
        """Return a self-contained HTML page with a slider; also write the page to `file` if given."""
        page = (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            f"<title>{html.escape(self.displays[0].declared)}</title></head>"
            f"<body style='max-width:70em;margin:2em auto'>{self._repr_html_()}</body></html>"
        )
        if file is not None:
            Path(file).write_text(page, encoding="utf-8")
        return page


def _common_frames(displays: list[SetDisplay]) -> tuple[Frame, Frame]:
    """Return the common frame of all displays for the class panel, and for the U panel."""
    frames = {panel: Frame(np.zeros(2), 1.0) for panel in PANELS}
    for panel in displays[0]._panels("both"):
        each = [display.frame(panel) for display in displays]
        corners = [f.middle + s * f.half for f in each for s in (-1.0, 1.0)]
        frames[panel] = Frame.around(np.array(corners), margin=1.0)
    return frames["classes"], frames["set"]
