"""A model over a grid of one parameter: coefficients, margin, samples with weight, scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler.path import Path, path
from ucm.data.bound import bind
from ucm.errors import ParameterError, brief
from ucm.evidence.parameter_range import Interval, interval_of
from ucm.evidence.relative import admissible, intervals_of, resolved
from ucm.forms.solution import Solution
from ucm.language.notation import LATEX
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model
from ucm.plot.grid import grid_of
from ucm.plot.names import Names, dense, settle
from ucm.plot.plane import feature_names
from ucm.plot.style import LINES, Display, axes_of, canvas, palette

__all__ = ["PathDisplay"]

_COUNT = 50  # values where none are given
_NAMED = 6  # coefficients with a name
_PICTURES = ("coefficients", "objective", "support", "score")


@dataclass(repr=False)
class PathDisplay(Display):
    """A plot of coefficients, margin, samples with weight and score along one parameter.

    Where 0 lies in U the problem is not convex, and where U is empty there is none: both are shaded, and the
    edges are those of `ucm.admissible`.

    Attributes
    ----------
    name, values : the parameter and its values
    coefficients : (k, n) w
    objective : (k,) the worst-case margin; of an objective its value
    support : (k,) how many samples have weight; None where the set is not made of samples
    scores : {name: (k,)} parts of the samples that are classified rightly
    interval : the admissible values, None of an objective
    robust : whether the model is a set
    feature_names : of the coefficients
    axes_, figure_ : what was drawn on
    """

    name: str
    values: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    objective: NDArray[np.float64]
    support: NDArray[np.intp] | None
    scores: dict[str, NDArray[np.float64]]
    interval: Interval | None
    robust: bool
    feature_names: list[str]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_model(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        solutions: Sequence[Solution] | None = None,
        X_test: Any = None,
        y_test: Any = None,
        names: Sequence[str] | None = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        subgroup: Any = None,
        pos_label: Any = None,
        panels: Sequence[str] = _PICTURES,
        ax: Any = None,
        **grid: Any,
    ) -> PathDisplay:
        """Solve where no solutions are given, draw.

        Parameters
        ----------
        model, X, y : as in `ucm.path`
        solutions : of `ucm.path` over the same grid
        X_test, y_test : further samples to score
        names : of the features; None for those of a data frame
        class_weight, sample_weight, subgroup, pos_label : as in `ucm.compile`; scores count every sample once
        panels : among "coefficients", "objective", "support" and "score"
        ax : None for a new figure, or one axes for each picture
        grid : the parameter with its values, as `nu=[0.2, 0.3]`; without, 50 values of the only parameter of
            a set, over its admissible interval and beyond the end at which 0 enters U

        Raises
        ------
        ParameterError
            No grid and several parameters; solutions of another grid; an unknown picture.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> shown = ucm.plot.PathDisplay.from_model(
        ...     ucm.models.mm_mpm(0.3), X, y, kappa=[0.1, 0.5, 1.0]
        ... )
        >>> shown.coefficients.shape
        (3, 13)
        """
        robust = not isinstance(model, Objective)
        declared = as_model(model, "PathDisplay") if robust else model
        of_samples: dict[str, Any] = {
            "class_weight": class_weight,
            "sample_weight": sample_weight,
            "subgroup": subgroup,
            "pos_label": pos_label,
        }
        declared = resolved(declared, bind(X, y, **of_samples))
        name, values = grid_of(declared, X, y, grid, _COUNT, "PathDisplay", of_samples)
        asked: dict[str, Any] = {name: values, **of_samples}
        found = path(declared, X, y, **asked) if solutions is None else solutions
        if len(found) != len(values):
            raise ParameterError(
                f"PathDisplay: {len(values)} values of {name} and {len(found)} solutions; give those of "
                "ucm.path over the same values"
            )
        interval = admissible(declared, X, y, **of_samples)[name] if robust else None
        return cls._of(
            name, values, list(found), X, y, X_test, y_test, names, interval, pos_label
        ).plot(ax, panels=panels)

    @classmethod
    def from_path(
        cls, path: Path, *, panels: Sequence[str] = _PICTURES, ax: Any = None, names: Any = None
    ) -> PathDisplay:
        """Draw what `ucm.path` gave; `panels`, `ax` and `names` as in `from_model`.

        Raises
        ------
        ParameterError
            The path is none, has no solutions, or comes from a pickle, which has no samples.

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
                f"{brief(path)}; pickles leave the samples out: use from_model"
            )
        name = path.name.split(", ")[0]
        names = path.features if names is None else names
        relative = path.model.relative_names()
        plain = path.model.substitute({n: x for n, x in path[0].params.items() if n in relative})
        robust = isinstance(plain, RobustMargin)
        together = robust and len(relative) > 1
        interval = interval_of(plain, path.data, name) if robust and not together else None
        if together:
            interval = intervals_of(path.model, path.data)[name]
        data, values = path.data, path.values.tolist()
        return cls._of(name, values, list(path), data.X, data.y, None, None, names, interval).plot(
            ax, panels=panels
        )

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> PathDisplay:
        """As `from_model`, of the model of a `ucm.Classifier` (fitted or not) for labels of two classes."""
        labels = np.unique(np.asarray(y))
        if labels.size != 2:
            raise ParameterError(
                f"PathDisplay: a path is of two classes, and y has {labels.size} labels; "
                "take the samples of two"
            )
        signs = np.where(np.asarray(y) == labels[1], 1.0, -1.0)
        if options.get("y_test") is not None:
            options["y_test"] = np.where(np.asarray(options["y_test"]) == labels[1], 1.0, -1.0)
        return cls.from_model(estimator.model, X, signs, **options)

    @classmethod
    def _of(
        cls, name: str, values: list[float], found: list[Solution], X: Any, y: Any, X_test: Any, y_test: Any,
        names: Any, interval: Interval | None, pos_label: Any = None,
    ) -> PathDisplay:  # fmt: skip
        order = np.argsort(values, kind="stable")
        found = [found[k] for k in order]
        if any(s.w is None for s in found):
            raise ParameterError(
                "PathDisplay: behind a kernel there are no coefficients; solve without one"
            )
        w = np.array([s.w for s in found])
        known_weights = [s.weights for s in found if s.weights is not None]
        support = None
        if len(known_weights) == len(found):
            support = np.array(
                [np.count_nonzero(q > 1e-6 * max(q.max(), 1e-300)) for q in known_weights]
            )
        scores = {}
        fitted = bind(X, y, pos_label=pos_label)
        sets = {"training" if X_test is not None else "training score": (fitted.X, fitted.y)}
        if X_test is not None:
            further = bind(X_test, y_test, pos_label=pos_label)
            sets["test"] = (further.X, further.y)
        if all(s.b is not None for s in found) and w.shape[1] == fitted.n:
            for word, (A, t) in sets.items():
                scores[word] = np.array(
                    [np.mean((s.decision(A) > 0.0) == (t > 0.0)) for s in found]
                )
        known = feature_names(X, names) or [f"$w_{{{j + 1}}}$" for j in range(w.shape[1])]
        objective = np.array([s.objective for s in found])
        return cls(
            name=name,
            values=np.asarray(values, float)[order],
            coefficients=w,
            objective=objective if interval is None else -objective,
            support=support,
            scores=scores,
            interval=interval,
            robust=interval is not None,
            feature_names=known,
        )

    def plot(self, ax: Any = None, *, panels: Sequence[str] = _PICTURES) -> PathDisplay:
        """Draw again; `ax` and `panels` as in `from_model`. What the model does not have is left out."""
        wrong = [word for word in panels if word not in _PICTURES]
        if wrong or not panels:
            raise ParameterError(
                f"PathDisplay: panels is among {', '.join(_PICTURES)}, got {brief(panels)}; "
                "leave it out for the first"
            )
        there = {"support": self.support is not None, "score": bool(self.scores)}
        shown = [word for word in panels if there.get(word, True)]
        with canvas():
            figure, found = axes_of(ax, len(shown), 1, (7.6, 2.35), "PathDisplay")
            for word, a in zip(shown, found):
                getattr(self, f"_{word}")(a)
            for k, a in enumerate(found):
                a.set_xlim(self.values[0], self.values[-1])
                if k:
                    a.sharex(found[0])
                if k < len(shown) - 1:
                    a.tick_params(labelbottom=False)
                self._shade(a)
            found[-1].set_xlabel(f"${LATEX.symbol(self.name)}$", fontsize=15)
            figure.align_ylabels(list(found))
            if "coefficients" in shown:
                self._name_coefficients(found[shown.index("coefficients")])
            self._name_regions(found[0])
            settle(figure)
            if "score" in shown:
                self._name_scores(found[shown.index("score")])
        self.axes_, self.figure_ = found, figure
        return self

    # --- where there is no convex problem -----------------------------------------------------
    @property
    def regions(self) -> list[tuple[float, float, str]]:
        """(edge, other end, why) of the values in view that are not admissible, why "zero" or "empty"."""
        if self.interval is None:
            return []
        low, high = float(self.values[0]), float(self.values[-1])
        i, found = self.interval, []
        if low < i.lower:
            found.append((min(i.lower, high), low, "empty" if i.lower_closed else "zero"))
        if high > i.upper:
            found.append((max(i.upper, low), high, "empty" if i.upper_closed else "zero"))
        return found

    def _shade(self, ax: Any) -> None:
        colours = palette(ax)
        for edge, end, why in self.regions:
            colour = colours.alert if why == "zero" else colours.soft
            ax.axvspan(*sorted((edge, end)), color=colour, alpha=0.16, lw=0, zorder=0)
            ax.axvline(edge, color=colour, lw=1.2, zorder=1)

    def _name_regions(self, ax: Any) -> None:
        colours = palette(ax)
        width = float(self.values[-1] - self.values[0])
        for edge, end, why in self.regions:
            words = {"zero": "$0 \\in U$: not convex", "empty": "$U$ is empty"}[why]
            if abs(end - edge) > 0.3 * width:
                at, side = 0.5 * (edge + end), "center"
            else:  # from the end of the picture over the edge, where there is room
                at, side = end, "right" if end > edge else "left"
            ax.text(
                at,
                1.02,
                words,
                transform=ax.get_xaxis_transform(),
                ha=side,
                va="bottom",
                color=colours.alert if why == "zero" else colours.soft,
                fontsize=12,
            )

    # --- the pictures ----------------------------------------------------------------------
    def _top(self) -> NDArray[np.intp]:
        """The coefficients that get a name."""
        return np.argsort(-np.abs(self.coefficients).max(axis=0), kind="stable")[:_NAMED]

    def _coefficients(self, ax: Any) -> None:
        colours, top = palette(ax), self._top()
        others = np.setdiff1d(np.arange(self.coefficients.shape[1]), top)
        for j in others[np.argsort(-np.abs(self.coefficients[:, others]).max(axis=0))][:200]:
            ax.plot(
                self.values,
                self.coefficients[:, j],
                color=colours.soft,
                lw=0.7,
                alpha=0.45,
                zorder=1.5,
            )
        for k, j in enumerate(top):
            ax.plot(
                self.values, self.coefficients[:, j], color=colours.series[k % len(colours.series)],
                ls=LINES[k % len(LINES)] if self.coefficients.shape[1] > 1 else "-", zorder=2,
            )  # fmt: skip
        ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        ax.set_ylabel("coefficients")
        ax.margins(y=0.08)

    def _name_coefficients(self, ax: Any) -> None:
        colours = palette(ax)
        low, high = ax.get_ylim()
        ends = sorted(
            (
                float(self.coefficients[-1, j] - low) / (high - low),
                self.feature_names[j],
                colours.series[k % len(colours.series)],
            )
            for k, j in enumerate(self._top())
        )
        heights = _apart(np.array([h for h, *_ in ends]), 0.115)
        for h, (_, word, colour) in zip(heights, ends):
            ax.annotate(
                word,
                (1.0, h),
                xycoords="axes fraction",
                xytext=(6.0, 0.0),
                textcoords="offset points",
                color=colour,
                va="center",
                fontsize=12,
                annotation_clip=False,
            )

    def _objective(self, ax: Any) -> None:
        colours = palette(ax)
        ax.plot(self.values, self.objective, color=colours.sum)
        if self.robust:
            ax.axhline(0.0, color=colours.soft, lw=0.8, zorder=1)
        ax.set_ylabel("worst-case\nmargin" if self.robust else "objective")
        ax.margins(y=0.08)

    def _support(self, ax: Any) -> None:
        counts = np.zeros_like(self.values) if self.support is None else self.support
        ax.step(self.values, counts, where="mid", color=palette(ax).ink)
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel("samples\nwith weight")

    def _score(self, ax: Any) -> None:
        colours = palette(ax)
        for k, (word, s) in enumerate(self.scores.items()):
            ax.plot(
                self.values,
                s,
                color=(colours.soft, colours.pos)[k if len(self.scores) > 1 else 1],
                ls=LINES[k],
                label=word,
            )
        ax.set_ylabel("score")
        ax.margins(y=0.12)

    def _name_scores(self, ax: Any) -> None:
        if len(self.scores) < 2:
            return
        colours, names = palette(ax), Names(ax)
        curves = {word: np.c_[self.values, s] for word, s in self.scores.items()}
        for curve in curves.values():
            names.avoid(dense(curve, 300))
        for k, (word, curve) in enumerate(curves.items()):
            names.near(word, curve, (colours.soft, colours.pos)[k], size=12)


def _apart(places: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Sorted places moved apart to a distance of at least `gap`, as little as possible, within [0, 1] where
    they fit: the isotonic regression of `places - k gap`."""
    from sklearn.isotonic import isotonic_regression

    steps = gap * np.arange(places.size)
    low, high = 0.0, max(1.0 - steps[-1], 0.0) if places.size else 0.0
    fitted = isotonic_regression(places - steps, y_min=low, y_max=high)
    return np.asarray(fitted, dtype=np.float64) + steps
