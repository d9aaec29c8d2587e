"""Sets that move with a parameter: pictures side by side, a slider in a page, a live one."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.path import path
from ucm.data.bound import bind
from ucm.errors import MissingExtraError, ParameterError
from ucm.evidence.relative import resolved
from ucm.language.notation import LATEX
from ucm.language.robust import as_model
from ucm.plot.grid import grid_of
from ucm.plot.names import settle
from ucm.plot.plane import plane_of
from ucm.plot.problem import problem_of
from ucm.plot.sets import SetDisplay
from ucm.plot.style import Display, axes_of, canvas, palette, pyplot
from ucm.plot.support import Frame

__all__ = ["SetAnimation"]

_COUNT = 16
_PANELS = ("classes", "set")


@dataclass(repr=False)
class SetAnimation(Display):
    """An animation of `SetDisplay` over values of one parameter.

    In a notebook it shows itself with a slider that needs neither a kernel nor a network; `to_html` writes
    the same as a page.

    Attributes
    ----------
    name, values : the parameter and its values
    displays : the picture of each
    axes_, figure_ : what the last `plot` drew on
    """

    name: str
    values: NDArray[np.float64]
    displays: list[SetDisplay]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls, model: Any, X: Any, y: Any, *, plane: Any = None, n_frames: int = 4, panels: str = "both",
        rtol: float = 4e-3, class_weight: Any = None, sample_weight: Any = None, subgroup: Any = None,
        pos_label: Any = None, ax: Any = None, **grid: Any,
    ) -> SetAnimation:  # fmt: skip
        """Solve for every value, trace the sets, and draw `n_frames` of them side by side.

        Parameters
        ----------
        model, X, y, plane : as in `SetDisplay.from_model`; plane="normal" is that of the first value
        n_frames, panels, ax : as in `plot`
        rtol : as in `SetDisplay.from_model`
        class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`
        grid : the parameter with its values, as `nu=[0.2, 0.3]`; without, 16 over the admissible interval of
            the only parameter and beyond it, into 0 in U

        Raises
        ------
        ParameterError
            No parameter, or several of them and no values.

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
        of_samples: dict[str, Any] = {
            "class_weight": class_weight,
            "sample_weight": sample_weight,
            "subgroup": subgroup,
            "pos_label": pos_label,
        }
        declared = resolved(as_model(model, "SetAnimation"), bind(X, y, **of_samples))
        name, values = grid_of(declared, X, y, grid, _COUNT, "SetAnimation", of_samples)
        asked: dict[str, Any] = {name: values, **of_samples}
        found = path(declared, X, y, **asked)
        displays = []
        where = plane
        for v, s in zip(values, found):
            moved = declared.with_params(**{name: v})
            problem = problem_of(moved, X, y, s, "SetAnimation", **of_samples)
            if isinstance(where, str) and where == "normal":
                where = plane_of(where, problem.data, problem.solution.w, None, "SetAnimation").P
            displays.append(SetDisplay._of(problem, where, rtol))
        frames = _common(displays)
        for d in displays:
            d.frames = frames
        return cls(name, np.asarray(values), displays).plot(ax, n_frames=n_frames, panels=panels)

    def title(self, k: int) -> str:
        """`nu = 0.3` as mathematics."""
        return f"${LATEX.symbol(self.name)} = {self.values[k]:.3g}$"

    def plot(self, ax: Any = None, *, n_frames: int = 4, panels: str = "both") -> SetAnimation:
        """Some of the pictures side by side.

        Parameters
        ----------
        ax : None for a new figure, or the axes: a row for the classes, a row for U
        n_frames : how many values, evenly spread
        panels : "both", "classes" or "set"
        """
        if panels not in ("both", *_PANELS):
            raise ParameterError(
                f'SetAnimation: panels is "both", "classes" or "set", got {panels!r}; leave it out for "both"'
            )
        chosen = np.unique(
            np.linspace(0, len(self.values) - 1, max(n_frames, 1)).round().astype(int)
        )
        rows = [
            w
            for w in _PANELS
            if panels in ("both", w) and (w == "set" or len(self.displays[0].points))
        ]
        with canvas():
            figure, found = axes_of(ax, len(rows), chosen.size, (3.3, 3.4), "SetAnimation")
            grid = found.reshape(len(rows), chosen.size)
            for i, what in enumerate(rows):
                for j, k in enumerate(chosen):
                    a = grid[i, j]
                    self.displays[k].prepare(a, what)
                    inside = self.displays[k].zero_inside
                    words = self.title(k) if i == 0 else ""
                    a.set(xlabel="", ylabel="", xticks=[], yticks=[], title=words)
                    if what == "set" and inside:
                        a.set_title(
                            (words + "   " if words else "") + "$0 \\in U$", color=palette(a).alert
                        )
            settle(figure)
            for i, what in enumerate(rows):
                for j, k in enumerate(chosen):
                    self.displays[k].draw(grid[i, j], what, names=False)
        self.axes_, self.figure_ = grid, figure
        return self

    def frames(self, dpi: int = 80) -> list[bytes]:
        """A PNG of every value."""
        plt, pictures = pyplot(), []
        for k, d in enumerate(self.displays):
            with canvas(), plt.ioff():
                shown = d._shown("both")
                figure, found = axes_of(None, 1, len(shown), (5.4, 5.2), "SetAnimation")
                for what, a in zip(shown, found):
                    d.prepare(a, what)
                figure.suptitle(self.title(k), fontsize=16, x=0.02, ha="left")
                settle(figure)
                for what, a in zip(shown, found):
                    d.draw(a, what)
                buffer = io.BytesIO()
                figure.savefig(buffer, format="png", dpi=dpi)
                plt.close(figure)
            pictures.append(buffer.getvalue())
        return pictures

    def _repr_html_(self) -> str:
        """A slider over the pictures, in one element: no script beside it, nothing to load."""
        pictures = [base64.b64encode(p).decode() for p in self.frames()]
        words = [f"{v:.4g}" for v in self.values]
        images = "".join(
            f"<img src='data:image/png;base64,{p}' alt='{html.escape(self.name)} = {v}' "
            f"style='display:{'block' if k == 0 else 'none'};max-width:100%'>"
            for k, (p, v) in enumerate(zip(pictures, words))
        )
        move = (
            "var f=this.closest('.ucm-animation'),k=+this.value;"
            "f.querySelector('output').value=this.dataset.values.split(' ')[k];"
            "f.querySelectorAll('img').forEach(function(e,i){e.style.display=i==k?'block':'none'})"
        )
        return (
            "<div class='ucm-animation'>"
            "<label style='display:flex;gap:1em;align-items:center;font-family:monospace'>"
            f"<span>{html.escape(self.name)} = <output>{words[0]}</output></span>"
            f"<input type='range' min='0' max='{len(words) - 1}' value='0' style='flex:1;max-width:30em' "
            f"data-values='{' '.join(words)}' oninput=\"{move}\"></label><div>{images}</div></div>"
        )

    def to_html(self, file: str | Path | None = None) -> str:
        """The slider as a page of its own, written to a file where one is named."""
        page = (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            f"<title>{html.escape(self.displays[0].declared)}</title></head>"
            f"<body style='max-width:70em;margin:2em auto'>{self._repr_html_()}</body></html>"
        )
        if file is not None:
            Path(file).write_text(page, encoding="utf-8")
        return page

    def interact(self) -> Any:
        """A slider of `ipywidgets`, for which a kernel draws.

        Raises
        ------
        MissingExtraError
            ipywidgets is not installed.
        """
        try:
            import ipywidgets  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtraError(
                f"SetAnimation.interact: a live slider needs ipywidgets, which is not there ({error}); "
                "pip install ipywidgets, or show the animation itself: its slider needs no kernel"
            ) from error

        def show(k: int) -> None:
            self.displays[k].plot()
            pyplot().show()

        options = [(f"{v:.4g}", k) for k, v in enumerate(self.values)]
        slider = ipywidgets.SelectionSlider(
            options=options, description=self.name, continuous_update=False
        )
        return ipywidgets.interactive(show, k=slider)


def _common(displays: list[SetDisplay]) -> tuple[Frame, Frame]:
    """Return common frames for the classes and for U around all pictures."""
    found = []
    for what in _PANELS:
        if what == "classes" and not len(displays[0].points):
            found.append(Frame(np.zeros(2), 1.0))
            continue
        corners = []
        for d in displays:
            f = d.frame(what)
            corners += [f.middle - f.half, f.middle + f.half]
        found.append(Frame.around(np.array(corners), room=1.0))
    return found[0], found[1]
