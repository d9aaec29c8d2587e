"""`PathDisplay`: coefficients, objective, number of samples with weight, and score along a parameter path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.compiler.path import Path, path
from ucm.data.bound_data import bind
from ucm.data.weights import SAMPLE_OPTIONS
from ucm.errors import ParameterError, brief
from ucm.language.node import as_declared
from ucm.language.notation import LATEX
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.plot.problem import feature_names
from ucm.plot.style import LINES, Display, palette
from ucm.ranges.interval import Interval
from ucm.ranges.parameter_range import interval_of
from ucm.ranges.relative_sizes import admissible, intervals_of, resolved

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COUNT = 50  # default number of values
_BEYOND = 0.35  # extension beyond the interval, as a part of its width
_NAMED = 6  # number of coefficient curves with a name
_DRAWN = 200  # largest number of further curves
_PANELS = ("coefficients", "objective", "support", "score")


@dataclass(repr=False)
class PathDisplay(Display):
    """A plot of coefficients, objective, number of samples with weight, and score over values of a parameter.

    The values for which 0 lies in U, so that the problem is not convex, and those for which U is empty are
    shaded; the edges are those of `ucm.admissible`.

    Attributes
    ----------
    name, values : the parameter and its values
    coefficients : (k, n) w
    objective : (k,) the worst-case margin; of a loss and a penalty their value
    support : (k,) number of samples with weight; None if the set has no samples
    scores : {name: (k,)} accuracies
    interval : the admissible values, None of a loss and a penalty
    feature_names : of the coefficients
    axes_, figure_ : of the last `plot`
    """

    name: str
    values: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    objective: NDArray[np.float64]
    support: NDArray[np.intp] | None
    scores: dict[str, NDArray[np.float64]]
    interval: Interval | None
    feature_names: list[str]

    @classmethod
    def from_model(
        cls, model: object, X: object, y: ArrayLike, *, X_test: object = None, y_test: object = None,
        names: Sequence[str] | None = None, panels: Sequence[str] = _PANELS, ax: object = None,
        **options: Any,
    ) -> PathDisplay:  # fmt: skip
        """Solve a model for every value of a parameter, and plot the solutions over the values.

        Parameters
        ----------
        model, X, y : as in `ucm.path`
        X_test, y_test, names, panels, ax : as in `from_path`
        options : the parameter with its values, as `nu=[0.2, 0.3]`, and other options of `ucm.path`. Without
            values, 50 values of the only parameter of a set, over its admissible interval and beyond the end
            at which 0 enters U.

        Raises
        ------
        ParameterError
            No values and several parameters; an unknown panel.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.PathDisplay.from_model(ucm.models.mm_mpm(0.3), X, y, kappa=[0.1, 0.5, 1.0])
        >>> shown.coefficients.shape
        (3, 13)
        """
        solved = path_over(model, X, y, _COUNT, options, "PathDisplay")
        label = options.get("pos_label")
        return cls.from_path(
            solved, X_test=X_test, y_test=y_test, pos_label=label, names=names, panels=panels, ax=ax
        )

    @classmethod
    def from_path(
        cls, path: Path, *, X_test: object = None, y_test: object = None, pos_label: object = None,
        names: Sequence[str] | None = None, panels: Sequence[str] = _PANELS, ax: object = None,
    ) -> PathDisplay:  # fmt: skip
        """Plot the solutions of a path that `ucm.path` returned over the parameter values.

        Parameters
        ----------
        path : with its samples
        X_test, y_test, pos_label : further samples to score, and their label of class +1
        names : of the features; None for those of a data frame
        panels : among "coefficients", "objective", "support" and "score"
        ax : None for a new figure, or one axes for each panel

        Raises
        ------
        ParameterError
            The path has no solutions or, from a pickle, no samples; an unknown panel; a kernel.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> found = ucm.path(ucm.models.mm_mpm(0.3), X, y, n_values=4)
        >>> ucm.plot.PathDisplay.from_path(found).coefficients.shape
        (4, 13)
        """
        if not isinstance(path, Path) or path.data is None or not len(path):
            raise ParameterError(
                f"PathDisplay: expected the Path of ucm.path, with a solution and its samples, got "
                f"{brief(path)}; a pickle has no samples: use from_model"
            )
        order = np.argsort(path.values, kind="stable")
        solutions = [path[k] for k in order.tolist()]
        if any(s.w is None for s in solutions):
            raise ParameterError(
                "PathDisplay: solutions of a kernel have no coefficients; solve without a kernel"
            )
        data, w = path.data, np.array([s.w for s in solutions])
        interval = _interval(path)
        objective = np.array([s.objective for s in solutions])
        weights = [s.weights for s in solutions if s.weights is not None]
        support = None
        if len(weights) == len(solutions):
            support = np.array([np.count_nonzero(q > 1e-6 * max(q.max(), 1e-300)) for q in weights])
        samples = {"training" if X_test is not None else "training score": data}
        if X_test is not None:
            samples["test"] = bind(X_test, y_test, pos_label=pos_label)
        scores = {}
        if all(s.b is not None for s in solutions) and w.shape[1] == data.n and path.model.offset is None:
            scores = {
                name: np.array([np.mean((s.decision(A.X) > 0.0) == (A.y > 0.0)) for s in solutions])
                for name, A in samples.items()
            }
        columns = feature_names(None, path.features if names is None else names)
        return cls(
            name=path.name.split(", ")[0],
            values=path.values[order],
            coefficients=w,
            objective=objective if interval is None else -objective,
            support=support,
            scores=scores,
            interval=interval,
            feature_names=columns or [f"$w_{{{j + 1}}}$" for j in range(w.shape[1])],
        ).plot(ax, panels=panels)

    def plot(self, ax: object = None, *, panels: Sequence[str] = _PANELS) -> PathDisplay:
        """Draw the chosen panels for which the model has values.

        `ax` and `panels` are as in `from_path`.
        """
        if not panels or any(panel not in _PANELS for panel in panels):
            raise ParameterError(
                f"PathDisplay: panels is among {', '.join(_PANELS)}, got {brief(panels)}; "
                "leave it out for all"
            )
        available = {"support": self.support is not None, "score": bool(self.scores)}
        drawn = [panel for panel in panels if available.get(panel, True)]
        with self._axes(ax, len(drawn), 1, (7.6, 2.35)) as axes:
            for panel, a in zip(drawn, axes):
                getattr(self, f"_{panel}")(a)
                a.set_xlim(self.values[0], self.values[-1])
                a.margins(y=0.08)
                self._shade(a)
            for a in axes[1:]:
                a.sharex(axes[0])
            for a in axes[:-1]:
                a.tick_params(labelbottom=False)
            axes[-1].set_xlabel(f"${LATEX.symbol(self.name)}$", fontsize=15)
            self.figure_.align_ylabels(list(axes))
            self._label_regions(axes[0])
        return self

    @property
    def regions(self) -> list[tuple[float, float, str]]:
        """The shaded intervals (edge, end of the grid, reason): "zero" for 0 in U, "empty" for empty U."""
        if self.interval is None:
            return []
        low, high = float(self.values[0]), float(self.values[-1])
        i, regions = self.interval, []
        if low < i.lower:
            regions.append((min(i.lower, high), low, "empty" if i.lower_closed else "zero"))
        if high > i.upper:
            regions.append((max(i.upper, low), high, "empty" if i.upper_closed else "zero"))
        return regions

    def _shade(self, ax: Axes) -> None:
        colours = palette(ax)
        for edge, end, reason in self.regions:
            colour = colours.alert if reason == "zero" else colours.soft
            ax.axvspan(*sorted((edge, end)), color=colour, alpha=0.16, lw=0, zorder=0)
            ax.axvline(edge, color=colour, lw=1.2, zorder=1)

    def _label_regions(self, ax: Axes) -> None:
        colours, width = palette(ax), float(self.values[-1] - self.values[0])
        for edge, end, reason in self.regions:
            x, side = 0.5 * (edge + end), "center"
            if abs(end - edge) <= 0.3 * width:  # a narrow region: align the text with the end of the grid
                x, side = end, "right" if end > edge else "left"
            text, colour = "$0 \\in U$: not convex", colours.alert
            if reason == "empty":
                text, colour = "$U$ is empty", colours.soft
            style = {"ha": side, "va": "bottom", "color": colour, "fontsize": 12}
            ax.text(x, 1.02, text, transform=ax.get_xaxis_transform(), **style)

    def _coefficients(self, ax: Axes) -> None:
        """Draw the coefficients, and name those with the largest absolute values beside the axes."""
        colours, order = palette(ax), np.argsort(-np.abs(self.coefficients).max(axis=0), kind="stable")
        for j in order[_NAMED : _NAMED + _DRAWN]:
            style = {"color": colours.soft, "lw": 0.7, "alpha": 0.45, "zorder": 1.5}
            ax.plot(self.values, self.coefficients[:, j], **style)
        for j, colour, dashes in zip(order[:_NAMED], colours.series, (*LINES, LINES[0])):
            name = self.feature_names[j]
            ax.plot(self.values, self.coefficients[:, j], color=colour, ls=dashes, zorder=2, label=name)
        ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        ax.set_ylabel("coefficients")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

    def _objective(self, ax: Axes) -> None:
        colours = palette(ax)
        ax.plot(self.values, self.objective, color=colours.sum)
        if self.interval is not None:
            ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        ax.set_ylabel("objective" if self.interval is None else "worst-case\nmargin")

    def _support(self, ax: Axes) -> None:
        counts = [] if self.support is None else self.support
        ax.step(self.values, counts, where="mid", color=palette(ax).ink)
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel("samples\nwith weight")

    def _score(self, ax: Axes) -> None:
        colors = (palette(ax).soft, palette(ax).pos)[-len(self.scores) :]
        for (name, score), color, dashes in zip(self.scores.items(), colors, LINES):
            ax.plot(self.values, score, color=color, ls=dashes, label=name)
        ax.set_ylabel("score")
        if len(self.scores) > 1:
            ax.legend(loc="best")


def _interval(path: Path) -> Interval | None:
    """Return the admissible interval of a path's first parameter; None for an `Objective` or no data."""
    data, name, relative = path.data, path.name.split(", ")[0], path.model.relative_names()
    if data is None or not isinstance(path.model, RobustMargin):
        return None
    if len(relative) > 1:
        return intervals_of(path.model, data)[name]
    numbers = {n: x for n, x in path[0].params.items() if n in relative}
    return interval_of(path.model.substitute(numbers), data, name)


# --- values ----------------------------------------------------------------------------------------
def path_over(model: object, X: object, y: ArrayLike, count: int, options: dict, who: str) -> Path:
    """Return the `ucm.path` over the parameter values in `options`, or else over `count` default values."""
    declared = as_declared(model, who)
    of_samples = {word: options[word] for word in SAMPLE_OPTIONS if word in options}
    declared = resolved(declared, bind(X, y, **of_samples))
    parameters = declared.params()
    if not options.keys() & parameters.keys():
        if len(parameters) != 1 or isinstance(declared, Objective):
            raise ParameterError(
                f"{who}: expected values of one parameter of {model!r}, which has "
                f"{', '.join(parameters) or 'none'}; write for example nu=[0.2, 0.3]"
            )
        ((name, value),) = parameters.items()
        interval = admissible(declared, X, y, **of_samples)[name]
        options = {**options, name: _values(interval, value, count)}
    return path(declared, X, y, **options)


def _values(interval: Interval, value: float, count: int) -> list[float]:
    """Return `count` values over an admissible interval, extended beyond an end at which 0 enters U."""
    lower, upper = interval.lower, interval.upper
    if not math.isfinite(upper):
        upper = 3.0 * max(value, abs(lower) if math.isfinite(lower) else 0.0)
    if not math.isfinite(lower):
        lower = min(0.0, upper - 3.0 * abs(value))
    width = upper - lower
    if not interval.lower_closed:
        lower = max(lower - _BEYOND * width, 0.05 * lower) if lower > 0.0 else lower + 0.02 * width
    if not interval.upper_closed and math.isfinite(interval.upper):
        upper += _BEYOND * width
    return np.linspace(lower, upper, count).tolist()
