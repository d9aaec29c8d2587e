"""Which model for these data: scores over the same folds, and what a fit takes."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ucm
from ucm.errors import ParameterError, brief
from ucm.plot.style import Display, axes_of, canvas, palette

__all__ = ["ComparisonDisplay"]

_WIDTH = 24  # letters of a name before it breaks


@dataclass(repr=False)
class ComparisonDisplay(Display):
    """The mean scores with their standard errors, best on top, the folds behind; and the seconds of a fit.

    A model that failed on a fold has no score, and says so in its place. Declared models are round and
    filled, other estimators are open diamonds.

    Attributes
    ----------
    names : of the models, from the top
    scores, errors, seconds : (k,) means, their standard errors, median times; NaN where there are none
    folds : (k, folds) the scores of the folds
    comparison : what was drawn
    axes_, figure_ : what was drawn on
    """

    names: tuple[str, ...]
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    seconds: NDArray[np.float64]
    folds: NDArray[np.float64]
    comparison: ucm.Comparison
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_comparison(cls, comparison: ucm.Comparison, *, ax: Any = None) -> ComparisonDisplay:
        """Draw what `ucm.compare` found.

        Parameters
        ----------
        comparison : Comparison
            Of one model or more.
        ax : two axes, optional
            For the scores and for the seconds; None for a new figure.

        Returns
        -------
        ComparisonDisplay
            With `axes_` and `figure_`.

        Raises
        ------
        ParameterError
            It is no comparison, or another number of axes.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> found = ucm.compare([ucm.models.nu_svm(0.3), ucm.models.mm_fda(0.1)], X, y, cv=3)
        >>> ucm.plot.ComparisonDisplay.from_comparison(found).names
        ('nu_svm', 'mm_fda')
        """
        if not isinstance(comparison, ucm.Comparison) or not len(comparison):
            raise ParameterError(
                f"ComparisonDisplay: expected a Comparison, got {brief(comparison)}; give what "
                "ucm.compare(models, X, y) returns"
            )

        def each(name: str) -> NDArray[np.float64]:
            found = (getattr(one, name) for one in comparison)
            return np.array([np.nan if x is None else x for x in found], dtype=np.float64)

        return cls(
            tuple(one.name for one in comparison),
            each("score"),
            each("error"),
            each("seconds"),
            np.array([one.fold_scores for one in comparison]),
            comparison,
        ).plot(ax)

    def plot(self, ax: Any = None) -> ComparisonDisplay:
        """Draw again; `ax` as in `from_comparison`."""
        with canvas():
            size = (5.4, 1.4 + 0.46 * len(self.names))
            grid = {} if ax is not None else {"gridspec_kw": {"width_ratios": (3, 2)}}
            figure, found = axes_of(ax, 1, 2, size, "ComparisonDisplay", **grid)
            rows = np.arange(len(self.names))
            for a in found:
                a.set(ylim=(rows.size - 0.4, -0.6), yticks=rows)
                a.tick_params(axis="y", length=0)
            self._scores(found[0], rows)
            self._seconds(found[1], rows)
        self.axes_, self.figure_ = found, figure
        return self

    def _scores(self, ax: Any, rows: NDArray[np.intp]) -> None:
        colours = palette(ax)
        ax.set_yticks(rows, ["\n".join(textwrap.wrap(name, _WIDTH)) for name in self.names])
        ax.grid(axis="x", color=colours.soft, alpha=0.25, lw=0.8)
        ax.set_axisbelow(True)
        for k, one in enumerate(self.comparison):
            colour = self._colour(colours, k)
            if one.score is None:
                word = f"failed on {len(one.failures)} of {self.comparison.folds} folds"
                ax.text(
                    0.02, k, word, transform=ax.get_yaxis_transform(), color=colour, va="center", size=11
                )  # fmt: skip
                continue
            spread = np.linspace(-0.16, 0.16, one.fold_scores.size)  # so that equal ones are seen
            ax.plot(
                one.fold_scores, k + spread, "o", ms=4.5, mec="none", color=colour, alpha=0.4, zorder=2
            )  # fmt: skip
            ax.errorbar(
                one.score, k, xerr=one.error or 0.0, color=colour, capsize=4, elinewidth=2.2, zorder=3,
                marker="o" if one.ours else "D", ms=8 if one.ours else 7,
                mfc=colour if one.ours else colours.paper,
            )  # fmt: skip
        ax.set_xlabel(f"{self.comparison.scoring}: folds, mean, standard error")

    def _seconds(self, ax: Any, rows: NDArray[np.intp]) -> None:
        colours = palette(ax)
        ax.set_yticks(rows, [])
        ax.set(xscale="log", xlabel="seconds to fit (median)")
        known = self.seconds[np.isfinite(self.seconds)]
        if not known.size:
            ax.set(xlim=(1e-3, 1.0))
            return
        left = 0.5 * float(known.min())
        ax.set_xlim(left, max(8.0 * float(known.max()), 100.0 * left))
        for k, one in enumerate(self.comparison):
            if one.seconds is None:
                continue
            colour = self._colour(colours, k)
            ax.plot([left, one.seconds], [k, k], color=colour, lw=1.6, zorder=2)
            ax.plot(
                one.seconds, k, color=colour, zorder=3, marker="o" if one.ours else "D",
                ms=8 if one.ours else 7, mfc=colour if one.ours else colours.paper,
            )  # fmt: skip
            ax.annotate(
                _time(one.seconds), (one.seconds, k), (9, 0), textcoords="offset points", va="center",
                color=colour, size=11,
            )  # fmt: skip

    def _colour(self, colours: Any, k: int) -> str:
        one = self.comparison[k]
        if one.score is None:
            return colours.alert
        return colours.series[0] if one.ours else colours.soft


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
