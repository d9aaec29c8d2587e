"""Points of a reader's own, in the place of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import CenteredMap, SampleMap
from ucm.errors import CompositionError, brief
from ucm.language.node import Notation, source
from ucm.language.statistics.samples import SampleNode

__all__ = ["Points"]


class Points(SampleNode):
    """Given points in place of samples: the rows of an array, such as prototypes or corners of a region.

    They stand where `pos` and `neg` do, and belong to no class. Each weighs 1, and m in a `nu` counts the
    samples only. In cross-validation every fold has all of them: what is fitted to the samples of all
    folds does not belong here. They are points of the feature space, so that there is no kernel for them.

    Parameters
    ----------
    points : (k, n) array or sparse matrix
        The points, one a row.

    Attributes
    ----------
    mean : their mean, a vector
    cov : their covariance, divided by their number (the 1/k convention)

    Raises
    ------
    CompositionError
        No matrix of finite numbers with a row.

    Examples
    --------
    >>> import ucm
    >>> corners = ucm.Points([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> X, y = [[3.0, 3.0], [4.0, 2.0], [-1.0, -1.0]], [1, 1, -1]
    >>> ucm.solve(ucm.Hull(ucm.pos) - ucm.Hull(corners), X, y).w.round(4)
    array([0.7071, 0.7071])
    """

    points: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.points) != 2 and not sparse.issparse(self.points):
            raise CompositionError(
                f"Points: expected an array of points, one a row, got {brief(self.points)}; write "
                "Points([[0.0, 1.0], [2.0, 0.5]]), and Point(v) for one"
            )
        if not min(self.points.shape):
            raise CompositionError(
                f"Points: expected at least one point, got an array of shape {self.points.shape}; leave "
                "the set out where there are no points"
            )

    def dimension(self, n: int | None) -> int | None:
        return self.points.shape[1]

    def rows(self, data: Data) -> None:
        return None

    def classes(self, data: Data) -> None:
        return None

    def map(self, data: Data) -> LinearMap:
        return data.once(("points", self), lambda: SampleMap(self.points))

    def average(self, data: Data) -> Vec:
        return np.asarray(self.points.mean(axis=0)).ravel()

    def covariance_factor(self, data: Data) -> LinearMap:
        return data.once(("centred", self), lambda: CenteredMap(self.points, self.average(data)))

    def covariance(self, data: Data) -> NDArray[np.float64]:
        F = self.covariance_factor(data)
        return F.weighted_gram(np.ones(F.shape[1]))

    def copies(self, data: Data) -> Vec | None:
        return None

    def count(self, data: Data) -> float:
        return float(self.points.shape[0])

    def number(self, data: Data) -> float:
        return self.count(data)

    @property
    def tag(self) -> str:
        return "points"

    def subscript(self, notation: Notation) -> str:
        return "c"

    def index(self, notation: Notation) -> str:
        return "i"

    def each(self, notation: Notation) -> str:
        return notation.sub("c", "i")

    def __repr__(self) -> str:
        return f"Points({source(self.points)})"

    def formula(self, notation: Notation) -> str:
        return notation.array(self.points)
