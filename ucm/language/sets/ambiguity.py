"""Ambiguity sets by name: means of distributions near the empirical one, composed of other sets.

For a loss that is minus the margin, the worst mean over distributions Q near the empirical one P is the
support function of a set of means of Q: each constructor here returns that set for one kind of samples, as a
hull or an ellipsoid, which checks later values of a `Param`. A classifier takes one for each class:
`CVaR(pos, 0.3) - CVaR(neg, 0.3)`. Over `signed` the weights put mass 1/2 on each class and are near the
uniform distribution over all samples, so that a ball can be empty where the classes differ in size.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from numbers import Real

from ucm.errors import CompositionError, brief
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import CappedSimplex, ChiSquareBall, NormBall
from ucm.language.node import Given
from ucm.language.parameter import Scalar, within
from ucm.language.sets.affine_image import Ball, Ellipsoid
from ucm.language.sets.hull import Hull, as_samples
from ucm.language.statistics.samples import SampleNode


def CVaR(samples: SampleNode, beta: Scalar) -> UncertaintySet:
    """The conditional value-at-risk (CVaR) set: the means of all Q on the samples with `dQ/dP <= 1/beta`.

        {sum_i q_i x_i : q in the simplex, N q_i <= 1/beta}

    `CVaR(pos, beta)` is `ReducedHull(pos, eta=1/(N beta))` with the N of the data at hand, and, without
    class weights, which leave the m of the latter as it is, `2 * CVaR(signed, nu)` the set of the nu-SVM.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    beta : float or Param in (0, 1]
        The part of the samples; some texts index by 1 - beta. Over `signed` at most 2 min(m+, m-)/m.

    Raises
    ------
    CompositionError
        `samples` are none, or beta lies outside of its range.

    Notes
    -----
    Rockafellar and Uryasev (2000), Optimization of conditional value-at-risk, Journal of Risk 2.

    Examples
    --------
    >>> import ucm
    >>> ucm.CVaR(ucm.pos, ucm.Param("beta", 0.2))
    Hull(pos, weights=CappedSimplex(1 / Param('beta', 0.2), relative=True))
    """
    samples = as_samples(samples, "CVaR")
    beta = within("CVaR", "beta", beta, "(0, 1]")
    return Hull(samples, weights=CappedSimplex(1.0 / beta, relative=True))


def ChiSquare(samples: SampleNode, rho: Scalar | None = None, level: Scalar | None = None) -> UncertaintySet:
    """The chi-square ambiguity set: the means of all Q on the samples with `chi^2(Q, P) <= rho`.

        {sum_i q_i x_i : q in the simplex, (1/N) sum_i (N q_i - 1)^2 <= rho}

    Give `rho`, or the `level` of a one-sided confidence: `rho = z(level)^2 / N` with the N of the data at
    hand, z the quantile of the normal distribution. `mean + sqrt(rho var)`, var divided by N, is exact while
    no q reaches 0 and an upper bound otherwise.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    rho : float or Param, >= 0
        The bound of the divergence.
    level : float or Param in [0.5, 1)
        In place of it: a confidence.

    Raises
    ------
    CompositionError
        `samples` are none, both or neither of `rho` and `level`, or a value outside of its range.

    Notes
    -----
    Duchi, Glynn and Namkoong (2021), Statistics of robust optimization, Mathematics of Operations Research
    46: for a fixed w, and for the optimal value, the worst mean at `level` is an upper bound of the true mean
    with that probability as N grows.

    Examples
    --------
    >>> import ucm
    >>> ucm.ChiSquare(ucm.neg, level=0.95)
    Hull(neg, weights=ChiSquareBall(level=0.95))
    """
    samples = as_samples(samples, "ChiSquare")
    return Hull(samples, weights=ChiSquareBall(rho, level))


def TotalVariation(samples: SampleNode, d: Scalar) -> UncertaintySet:
    """The total-variation ambiguity set: the means of all Q on the samples with `sup |Q(A) - P(A)| <= d`.

        {sum_i q_i x_i : q in the simplex, (1/2) sum_i |q_i - 1/N| <= d}

    Over one class it is `d * Hull(S) + (1 - d) * CVaR(S, 1 - d)`: a part d of the mass goes to the worst
    sample, and 1 - d to the worst fraction 1 - d of the samples.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    d : float or Param in [0, 1]
        The distance.

    Raises
    ------
    CompositionError
        `samples` are none, or d lies outside of its range.

    Notes
    -----
    Jiang and Guan (2018), Risk-averse two-stage stochastic program with distributional ambiguity, Operations
    Research 66.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.TotalVariation(ucm.pos, 0.1))
    {Σ_{y_i = +1} q_i x_i : q ∈ Δ, ‖q - 1/N₊‖₁ ≤ 0.2}
    """
    samples = as_samples(samples, "TotalVariation")
    d = within("TotalVariation", "d", d, "[0, 1]")
    return Hull(samples, weights=NormBall(2.0 * d, 1.0, around="uniform"))


def SpectralRisk(samples: SampleNode, betas: Iterable[Scalar], weights: Iterable[float]) -> UncertaintySet:
    """The spectral-risk set: the Minkowski sum `sum_k lambda_k CVaR(S, beta_k)`, lambda on the simplex.

    Its support function is `sum_k lambda_k CVaR_(beta_k)`, the mean of the losses in order, weighted by a
    step function that does not fall.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    betas : sequence of floats or Params in (0, 1]
        The parts.
    weights : sequence of floats, as many
        lambda, not negative, of sum 1.

    Raises
    ------
    CompositionError
        `samples` are none; lengths that differ; weights that are negative or do not add up to 1.

    Notes
    -----
    Acerbi (2002), Spectral measures of risk, Journal of Banking and Finance 26; every coherent,
    comonotone and law-invariant risk is a mixture of such (Kusuoka 2001).

    Examples
    --------
    >>> import ucm
    >>> ucm.SpectralRisk(ucm.pos, (0.1, 1.0), (0.25, 0.75)) == 0.25 * ucm.CVaR(
    ...     ucm.pos, 0.1
    ... ) + 0.75 * ucm.CVaR(ucm.pos, 1.0)
    True
    """
    samples = as_samples(samples, "SpectralRisk")
    parts, shares = _sequence("betas", betas), _sequence("weights", weights)
    if len(parts) != len(shares):
        raise CompositionError(
            f"SpectralRisk: expected a weight for each beta, got {len(parts)} betas and "
            f"{len(shares)} weights; give as many of both"
        )
    if not all(isinstance(c, Real) and c >= 0.0 for c in shares) or not math.isclose(sum(shares), 1.0):
        raise CompositionError(
            f"SpectralRisk: the weights are numbers of at least 0 that add up to 1, got {brief(shares)}; "
            "for a Param c write c * CVaR(S, 0.1) + (1 - c) * CVaR(S, 1)"
        )
    pairs = zip(shares, parts, strict=True)
    return functools.reduce(operator.add, [c * CVaR(samples, beta) for c, beta in pairs])


def Wasserstein(
    samples: SampleNode, eps: Scalar, order: float = 1.0, beta: Scalar = 1.0, norm: float = 2.0
) -> UncertaintySet:
    """The Wasserstein set: the beta-tail means of all Q within Wasserstein distance eps of the samples.

        order 1:    CVaR(S, beta) + Ball(0, eps / beta, p=norm)
        order inf:  CVaR(S, beta) + Ball(0, eps, p=norm)

    With order 1 the samples may move by eps on average, and all of it can fall on the worst part beta; with
    order inf each by eps. The worst tail mean is that of the samples and `eps / beta`, or eps, times the dual
    norm of w.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    eps : float or Param, >= 0
        The distance, in the units of the features.
    order : 1 or inf
        Of the distance: the mean of the moves, or the longest.
    beta : float or Param in (0, 1]
        The part of Q whose mean counts; 1 is the mean of all.
    norm : float in [1, inf]
        The norm in which moves are measured.

    Raises
    ------
    CompositionError
        `samples` are none; an order other than 1 and inf; a value outside of its range.

    Notes
    -----
    Mohajerin Esfahani and Kuhn (2018), Mathematical Programming 171, theorem 6.3; Kuhn et al. (2019). Where
    the norm of w is that dual norm, as it is for norm=2 and a bare set, a ball only adds its radius to the
    objective while 0 stays outside: a guarantee, and not another classifier.

    Examples
    --------
    >>> import ucm
    >>> ucm.Wasserstein(ucm.pos, 0.1, beta=0.5, norm=1)
    Hull(pos, weights=CappedSimplex(2, relative=True)) + Ball(0, 0.2, p=1)
    """
    samples = as_samples(samples, "Wasserstein")
    eps = within("Wasserstein", "eps", eps, "[0, inf)")
    if order not in (1, math.inf):
        raise CompositionError(
            f"Wasserstein: order is 1 or inf, got {brief(order)}; order 2 of moments is Gelbrich"
        )
    return CVaR(samples, beta) + Ball(0, eps / beta if order == 1 else eps, p=norm)


def Gelbrich(samples: SampleNode, eps: Scalar, kappa: Scalar) -> UncertaintySet:
    """The Gelbrich ambiguity set: the hull of kappa-ellipsoids of all moments near those of the samples.

    Near moments lie within Gelbrich distance eps:

        Ellipsoid(S.mean, S.cov, kappa) + Ball(0, eps sqrt(1 + kappa^2))

    Its support function is the largest `w'mu + kappa sqrt(w'Sigma w)` over all (mu, Sigma) with `||mu -
    mean||^2 + tr(Sigma + cov - 2 (cov^(1/2) Sigma cov^(1/2))^(1/2)) <= eps^2`: over every distribution
    within a Wasserstein distance eps of order 2, and all that share moments with one.

    Parameters
    ----------
    samples : pos, neg, signed or Points(array)
        What is weighed.
    eps : float or Param, >= 0
        The distance, in the units of the features.
    kappa : float or Param, >= 0
        In standard deviations.

    Raises
    ------
    CompositionError
        `samples` are none, or a value is negative.

    Notes
    -----
    Kuhn, Mohajerin Esfahani, Nguyen and Shafieezadeh-Abadeh (2019), Wasserstein distributionally robust
    optimization, theorem 21. The 2-norm ball only adds its radius to the objective while 0 stays outside: a
    guarantee, and not another classifier.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.Gelbrich(ucm.pos, ucm.Param("eps", 0.1), ucm.Param("kappa", 1.0)))
    {x̄₊ + Σ₊^(1/2) u : ‖u‖₂ ≤ κ} ⊕ {u : ‖u‖₂ ≤ ε·(1 + κ^2)^0.5},  κ = 1, ε = 0.1
    """
    samples = as_samples(samples, "Gelbrich")
    eps = within("Gelbrich", "eps", eps, "[0, inf)")
    kappa = within("Gelbrich", "kappa", kappa, "[0, inf)")
    return Ellipsoid(samples.mean, samples.cov, kappa) + Ball(0, eps * (1.0 + kappa**2.0) ** 0.5)


def _sequence(field: str, values: Iterable[Given]) -> list[Given]:
    try:
        items = list(values)
    except TypeError:
        items = []
    if not items:
        raise CompositionError(
            f"SpectralRisk: {field} are numbers or Params, one for each part, got {brief(values)}; "
            "write for example betas=(0.1, 1.0), weights=(0.25, 0.75)"
        )
    return items
