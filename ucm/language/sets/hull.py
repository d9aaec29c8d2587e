"""Convex hulls of samples, with weights in a domain."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import LinearMap
from ucm.errors import CompositionError, brief
from ucm.language.contracts import Domain, SampleWeights, exactly_one
from ucm.language.domains import CappedSimplex, Simplex
from ucm.language.domains.box import refuse_bounds
from ucm.language.node import Notation, RotationInvariant, converted
from ucm.language.parameter import Scalar
from ucm.language.sets.affine_image import DomainImage
from ucm.language.statistics.affine import ORIGIN, VectorNode
from ucm.language.statistics.samples import Points, SampleNode, kinds_of


def as_samples(given: SampleNode | np.ndarray | list, where: str) -> SampleNode:
    """Return samples unchanged, and an array as `Points`; refuse other objects."""
    match given:
        case SampleNode():
            return given
        case np.ndarray() | list() | sparse.sparray() | sparse.spmatrix():
            return Points(given)
    raise CompositionError(
        f"{where}: expected pos, neg, signed or an array of points, got {brief(given)}; write pos, "
        "or Points(array), one point a row"
    )


class Hull(DomainImage, RotationInvariant):
    """The convex hull of samples with weights q in a domain, `{sum_i q_i x_i : q in the simplex and domain}`.

    Over `pos` or `neg` the weights sum to 1. Over `signed` the set is `{sum_i q_i y_i x_i}` and q a
    distribution over all samples with mass 1/2 on each class (Ito, Takeda and Toh 2015, section 5.1).

    Parameters
    ----------
    samples : pos, neg, signed, those of a group, as pos.group("A"), or an array of points, one a row
        What is combined; an array is kept as `Points`.
    weights : Domain, optional
        Confines q further; `KLBall` and `LossBall` refer to the uniform distribution over the
        hull's own samples.

    Raises
    ------
    CompositionError
        `samples` are no samples, or `weights` no domain, or with bounds for each sample.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hull(ucm.signed, weights=ucm.NormBall(ucm.Param("kappa", 0.2)))
    Hull(signed, weights=NormBall(Param('kappa', 0.2)))
    """

    samples: SampleNode = converted(converter=as_samples)  # type: ignore[arg-type]
    weights: Domain | None = None

    def _check(self) -> None:
        super()._check()
        refuse_bounds(self.weights, "Hull")

    def declared(self) -> tuple[VectorNode, Domain]:
        return ORIGIN, Simplex() if self.weights is None else self.weights

    def map(self, data: Data) -> LinearMap:
        return self.samples.map(data)

    def sample_weights(self, data: Data) -> SampleWeights:
        return self.samples.bound(data)

    def coefficient_name(self) -> str:
        return f"q_{self.samples.tag}"

    def formula(self, notation: Notation) -> str:
        simplex = f"q{notation.element}{notation.symbol('Delta')}"
        term = f"{notation.sub('q', 'i')} {self.samples.each(notation)}"
        inside = (
            [] if self.weights is None else [self.weights.inside_formula(self.samples.counting(notation))]
        )
        total = notation.sum_over(self.samples.index(notation), term)
        return notation.set_of(total, ", ".join([simplex, *inside]))


def ReducedHull(
    samples: SampleNode | np.ndarray | list, eta: Scalar | None = None, nu: Scalar | None = None
) -> Hull:
    """The reduced convex hull `{sum_i q_i x_i : sum q = 1, 0 <= q <= eta}` of one class.

    It is `Hull(samples, weights=CappedSimplex(eta))`. In place of eta, nu stands for `eta = 2 / (m nu)`, m
    all samples of both classes and every group: `ReducedHull(pos, nu=nu) - ReducedHull(neg, nu=nu)` is the
    nu-SVM.

    Parameters
    ----------
    samples : pos, neg, those of a group, as pos.group("A"), or an array of points, one a row
        The class, or the group of it, or points of one's own.
    eta : float or Param in [1/m_o, inf)
        The cap of every weight, m_o the samples of the class.
    nu : float or Param in (0, 2 m_o / m]
        In place of eta: a lower bound of the fraction of all m samples whose weights are not 0, in the hulls
        of both classes together.

    Raises
    ------
    CompositionError
        Both or neither of `eta` and `nu`, or samples of both classes.

    Notes
    -----
    Barbero, Takeda and Lopez (2015), equation (6); Ito, Takeda and Toh (2015), Example 2.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.ReducedHull(ucm.pos, nu=ucm.Param("nu", 0.3)))
    {Σ_{y_i = +1} q_i x_i : q ∈ Δ, q_i ≤ 2/(m ν)},  ν = 0.3
    """
    points = as_samples(samples, "ReducedHull")
    if "signed" in kinds_of(points):
        raise CompositionError(
            f"ReducedHull: expected pos or neg, got {brief(points)}; over all samples "
            "write Hull(signed, weights=CappedSimplex(cap))"
        )
    exactly_one(f"ReducedHull({points!r})", eta=eta, nu=nu)
    return Hull(points, weights=CappedSimplex(eta, nu=nu))
