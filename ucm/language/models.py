"""Named models of the literature, each one expression of the modeling language.

A number as an argument becomes a `Param` of the same name, which can be tuned. A `Param` and arithmetic of
parameters are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NoReturn

from ucm.errors import CompositionError, brief, unknown_attribute
from ucm.language.contracts import UncertaintySet, exactly_one
from ucm.language.domains import KLBall, LossBall, NormBall
from ucm.language.losses import Exponential, Hinge, Ramp, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.parameter import Expression, Param, Scalar
from ucm.language.penalties import L1, L2, CappedL1, ExpL0
from ucm.language.robust import RobustMargin
from ucm.language.sets import ConvexUnion, CVaR, Ellipsoid, Hull, ReducedHull
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.terms import ConvexLoss

__all__ = [
    "biased_l2_nu_svm",
    "cap_one_norm_svm",
    "coherent_mm_fda",
    "coherent_mm_mpm",
    "enu_svm",
    "generalised_nu_svm",
    "group_dro",
    "kl_svm",
    "l2_nu_svm",
    "mm_fda",
    "mm_mpm",
    "nu_svm",
    "one_norm_svm",
    "psvm",
    "rlsvm0",
    "rlsvm1",
    "rlsvm2",
    "rlsvmc1",
    "svm",
    "zero_norm_svm",
]


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> NoReturn:
        raise unknown_attribute("ucm.models", name, __all__)


def _param(name: str, number: Any) -> Expression:
    return number if isinstance(number, Expression) else Param(name, number)


def nu_svm(nu: Scalar) -> UncertaintySet:
    """The nu-SVM: the difference of the reduced hulls of both classes, with weights of at most `2 / (m nu)`.

    `w` has norm 1 and the direction of `coef_` of `sklearn.svm.NuSVC(nu, kernel="linear")`; with `kernel=`
    the model is `NuSVC` with that kernel.

    Parameters
    ----------
    nu : float
        In (0, 2 min(m+, m-) / m]. A larger nu is a smaller set. The model is convex for nu above the lower
        end of `ucm.admissible`; below it the model is `enu_svm`.

    Notes
    -----
    Ito, Takeda and Toh (2015), equation (12), where each class has mass 1/2; x and the objective are twice
    as large here.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> solution = ucm.solve(ucm.models.nu_svm(0.3), X, y)
    >>> solution.status, round(solution.objective, 4)
    ('optimal', -1.6581)
    """
    p = _param("nu", nu)
    return ReducedHull(pos, nu=p) - ReducedHull(neg, nu=p)


def enu_svm(nu: Scalar, norm: float = 2.0) -> RobustMargin:
    """The extended nu-SVM: the nu-SVM with `||w||_p = 1`, p in [1, inf], convex or not.

    For `norm=2` and a nu of the admissible interval it is `nu_svm`. For a smaller nu the reduced hulls
    meet, and "auto" takes the non-convex solvers.

    Barbero, Takeda and Lopez (2015), equations (2) and (7).

    Parameters
    ----------
    nu : float
        As in `nu_svm`.
    norm : float
        The p of `||w||_p = 1`, in [1, inf].
    """
    return RobustMargin(nu_svm(nu), norm)


def mm_mpm(kappa: Scalar) -> UncertaintySet:
    """The margin-maximised minimax probability machine: one ellipsoid per class, each of radius kappa.

    Towards the upper end of the admissible interval it becomes the minimax probability machine of Lanckriet
    et al. (2002).

    Ito, Takeda and Toh (2015), equation (32).

    Parameters
    ----------
    kappa : float
        The radius, at least 0, in standard deviations. At 0 each class is its mean; the model is convex
        while the ellipsoids do not meet, which `ucm.admissible` computes.
    """
    k = _param("kappa", kappa)
    return Ellipsoid(pos.mean, pos.cov, k) - Ellipsoid(neg.mean, neg.cov, k)


def mm_fda(kappa: Scalar) -> UncertaintySet:
    """The margin-maximised Fisher discriminant: one ellipsoid around the difference of the class means.

    Towards the upper end of the admissible interval w takes the direction of Fisher's discriminant, which is
    `sklearn.discriminant_analysis.LinearDiscriminantAnalysis` for classes of equal size.

    Ito, Takeda and Toh (2015), equation (34).

    Parameters
    ----------
    kappa : float
        As in `mm_mpm`; at 0 the set is the difference of the means.
    """
    return Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, _param("kappa", kappa))


def generalised_nu_svm(loss: ConvexLoss, lam: Scalar = 1.0) -> UncertaintySet:
    """The generalised nu-SVM: minimise `-rho + (1/m) sum l(rho - margin_i)` subject to `||w||_2 <= lam`.

    The set is the hull whose weights lie in the ball of the conjugate l*, with the radius of the optimum
    (Lemma 5), computed when the model meets data. `Solution.w`, `b` and `rho` have norm 1: times lam they
    solve the problem. If the bound `||w|| <= lam` is inactive, 0 lies on the boundary of that set, and the
    solution is that of the problem: `objective`, `w` (shorter than lam), `b` and `rho`, equal for every
    larger lam.

    Parameters
    ----------
    loss : ConvexLoss
        l without an offset, `max(0, u)^p` for `Hinge(p)`. `Hinge() / nu` is the nu-SVM for every lam.
    lam : float
        Positive. The bound is inactive from the upper end of `ucm.admissible` on.

    Notes
    -----
    Ito, Takeda and Toh (2015), equations (22) and (25). Their claims that w = 0 beyond some lam_max in
    (48), and below some nu_min in (40), hold for multiples of the hinge loss only.

    Examples
    --------
    >>> import ucm
    >>> model = ucm.models.generalised_nu_svm(ucm.Exponential(), lam=0.5)
    >>> sol = ucm.solve(model, [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> round(0.5 * sol.rho, 4), round(sol.params["radius"], 4)
    (0.7191, -0.9697)
    """
    return Hull(signed, weights=LossBall(loss, lam=_param("lam", lam)))


def l2_nu_svm(kappa: Scalar | None = None, *, nu: Scalar | None = None) -> UncertaintySet:
    """The nu-SVM with squared hinge loss: weights q with mass 1/2 per class and `||q||_2 <= kappa` in total.

    With nu it is `min -rho + (1/(m nu)) sum xi_i^2` over `||w||_2 <= 1`, whose kappa is computed from the
    data. Give kappa or nu.

    Ito, Takeda and Toh (2015), equations (38) and (40).

    Parameters
    ----------
    kappa : float
        The bound of the norm, at least `sqrt(1/m+ + 1/m-) / 2`, where all weights of a class are equal;
        from `sqrt(1/2)` on the model is the hard margin.
    nu : float
        Positive. A larger nu is a smaller set. For nu below the lower end of `ucm.admissible` the bound of
        w is inactive: see `generalised_nu_svm`.

    Raises
    ------
    CompositionError
        Both or neither are given.
    """
    exactly_one("l2_nu_svm", kappa=kappa, nu=nu)
    if nu is None:
        return Hull(signed, weights=NormBall(_param("kappa", kappa)))
    return Hull(signed, weights=LossBall(SquaredHinge() / _param("nu", nu), lam=1.0))


def biased_l2_nu_svm(
    kappa_pos: Scalar | None = None,
    kappa_neg: Scalar | None = None,
    *,
    nu_pos: Scalar | None = None,
    nu_neg: Scalar | None = None,
) -> UncertaintySet:
    """The biased nu-SVM with squared hinge loss: a separate bound on the 2-norm of the weights of each class.

    With nus it is `min -rho + sum_o (1/(m nu_o)) sum_{i in o} xi_i^2` over `||w||_2 <= 1`. Give both kappas
    or both nus.

    Parameters
    ----------
    kappa_pos : float
        The bound for class +1, at least `1 / sqrt(m+)`.
    kappa_neg : float
        The bound for class -1, at least `1 / sqrt(m-)`.
    nu_pos, nu_neg : float
        Positive, in place of the kappas.

    Raises
    ------
    CompositionError
        Other parameters than two kappas or two nus are given.

    Notes
    -----
    Ito, Takeda and Toh (2015), equations (42) and (44). The kappas are twice theirs, since each class has
    mass 1.
    """
    kappas = {"kappa_pos": kappa_pos, "kappa_neg": kappa_neg}
    nus = {"nu_pos": nu_pos, "nu_neg": nu_neg}
    given = [sizes for sizes in (kappas, nus) if list(sizes.values()) != [None, None]]
    if len(given) != 1 or None in given[0].values():
        raise CompositionError(
            f"biased_l2_nu_svm: give exactly one of both kappas and both nus, got {kappas | nus}"
        )
    if given == [kappas]:
        plus, minus = (NormBall(_param(name, kappa)) for name, kappa in kappas.items())
    else:
        losses = (SquaredHinge() / _param(name, nu) for name, nu in nus.items())
        plus, minus = (LossBall(loss, lam=1.0) for loss in losses)
    return Hull(pos, weights=plus) - Hull(neg, weights=minus)


def kl_svm(alpha: Scalar | None = None, *, lam: Scalar | None = None) -> UncertaintySet:
    """The exponential-loss model: weights with a KL divergence from `1/m` of at most `-log alpha`.

    With lam it is `min -rho + (1/m) sum exp(rho - margin_i)` over `||w||_2 <= lam`. Give alpha or lam.

    Ito, Takeda and Toh (2015), equations (46) and (48).

    Parameters
    ----------
    alpha : float
        In (0, `2 sqrt(m+ m-) / m`]. A smaller alpha is a larger set; at the upper end all weights of a class
        are equal.
    lam : float
        Positive. A larger lam is a larger set, up to the upper end of `ucm.admissible`, from which on the
        bound of w is inactive: see `generalised_nu_svm`.

    Raises
    ------
    CompositionError
        Both or neither are given.
    """
    exactly_one("kl_svm", alpha=alpha, lam=lam)
    if lam is None:
        return Hull(signed, weights=KLBall(_param("alpha", alpha)))
    return generalised_nu_svm(Exponential(), _param("lam", lam))


def psvm(p: float = 1.5, C: Scalar = 1.0) -> Objective:
    """The pSVM: the objective `C sum max(0, 1 - margin)^p + ||w||_2^2 / 2`.

    p = 1 is `sklearn.svm.SVC(C=C)` with the kernel of `compile`, linear by default; p = 2 is
    `LinearSVC(loss="squared_hinge", C=C)`, except that the intercept is not penalised.

    Sun (2024), equation (9).

    Parameters
    ----------
    p : float
        The power of the hinge loss, at least 1: a number, never a `Param`.
    C : float
        The positive weight of the losses.
    """
    return _param("C", C) * Hinge(p) + 0.5 * L2()


def coherent_mm_mpm(kappa: Scalar) -> UncertaintySet:
    """The coherent MM-MPM: the ellipsoid of each class intersected with the convex hull of the class.

    The worst case is a coherent risk measure, since no point outside of the samples counts.

    Ito, Takeda and Toh (2015), Example 5.

    Parameters
    ----------
    kappa : float
        The radius, at least 0, in standard deviations. For a large kappa the hulls remain: the hard margin.
    """
    k = _param("kappa", kappa)
    positive = Ellipsoid(pos.mean, pos.cov, k) & Hull(pos)
    return positive - (Ellipsoid(neg.mean, neg.cov, k) & Hull(neg))


def coherent_mm_fda(kappa: Scalar) -> UncertaintySet:
    """The coherent MM-FDA: the ellipsoid of the MM-FDA intersected with the difference of the class hulls.

    Ito, Takeda and Toh (2015), equation (50).

    Parameters
    ----------
    kappa : float
        As in `coherent_mm_mpm`.
    """
    ellipsoid = Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, _param("kappa", kappa))
    return ellipsoid & (Hull(pos) - Hull(neg))


def group_dro(groups: Sequence[str | float], beta: Scalar = 1.0) -> UncertaintySet:
    """Group distributionally robust optimisation: per class the convex hull of the CVaR sets of its groups.

    The margin is the margin of the worst group of each class. A pooled hull has the margin of the worst
    samples of all groups together, few of which belong to a rare group.

    Parameters
    ----------
    groups : two labels or more
        Labels of the argument `subgroup` of `ucm.compile` and `Classifier.fit`. Every group has samples of
        both classes.
    beta : float
        In (0, 1]: the worst fraction of each group that counts. At 1 each group is its mean.

    Raises
    ------
    CompositionError
        Fewer than two groups, a group given twice, no sequence of labels, or a label that is neither a
        string nor a number.

    References
    ----------
    Sagawa, Koh, Hashimoto and Liang (2020), with tail means of margins in place of means of losses.

    Examples
    --------
    >>> import ucm
    >>> X, y, g = [[3.0], [9.0], [1.0], [0.0]], [1, 1, -1, -1], ["A", "B", "A", "B"]
    >>> ucm.solve(ucm.models.group_dro(["A", "B"]), X, y, subgroup=g).objective
    -2.0
    """
    ordered = isinstance(groups, Iterable) and not isinstance(groups, str | bytes | Mapping | Set)
    labels = list(groups) if ordered else []
    if len(labels) < 2:
        raise CompositionError(
            f"group_dro: expected a sequence of two labels or more, got {brief(groups)}; write "
            "group_dro(['A', 'B']) with the labels of subgroup"
        )
    b = _param("beta", beta)
    plus, minus = (ConvexUnion(*(CVaR(S.group(g), b) for g in labels)) for S in (pos, neg))
    if len(set(labels)) < len(labels):
        raise CompositionError(
            f"group_dro: expected labels that differ, got {brief(groups)}; name every group once"
        )
    return plus - minus


def svm(lam: Scalar | None = None, *, C: Scalar | None = None) -> Objective:
    """The support vector machine: hinge loss plus `lam ||w||_2^2`, or with C `psvm(1.0, C)`.

    It equals `sklearn.svm.SVC(kernel="linear", C=C)` with `C = 1 / (2 lam)`.

    Ong and Le Thi (2013), appendix A.1.

    Parameters
    ----------
    lam : float, optional
        The positive weight of the penalty.
    C : float, optional
        The positive weight of the losses, in place of `lam`.

    Raises
    ------
    CompositionError
        Both or neither are given.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.svm(0.5)
    Hinge() + Param('lam', 0.5) * L2()
    >>> ucm.solve(ucm.models.svm(0.5), *ucm.datasets.load("wine")).status
    'optimal'
    """
    exactly_one("svm", lam=lam, C=C)
    return psvm(1.0, C) if C is not None else Hinge() + _param("lam", lam) * L2()


def one_norm_svm(lam: Scalar) -> Objective:
    """The 1-norm SVM, which selects features: hinge loss plus `lam ||w||_1`.

    Ong and Le Thi (2013), appendix A.2.

    Parameters
    ----------
    lam : float
        The positive weight of the penalty; from the upper end of `ucm.admissible` on, w = 0 is optimal.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> solution = ucm.solve(ucm.models.one_norm_svm(1.0), X, y)
    >>> solution.status, int((abs(solution.w) > 1e-6).sum())  # features in use
    ('optimal', 9)
    """
    return Hinge() + _param("lam", lam) * L1()


def zero_norm_svm(lam: Scalar, a: Scalar = 4.0) -> Objective:
    """The 0-norm SVM, non-convex, which selects features: hinge loss plus `lam sum_j (1 - exp(-a |w_j|))`.

    Ong and Le Thi (2013), appendix A.3.

    Parameters
    ----------
    lam : float
        The positive weight of the penalty; from the upper end of `ucm.admissible` on, w = 0 is a critical
        point.
    a : float
        The positive steepness of `1 - exp(-a |w_j|)`, which tends to the number of features as a grows.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> solution = ucm.solve(ucm.models.zero_norm_svm(1.0), X, y)
    >>> solution.status, int((abs(solution.w) > 1e-6).sum())  # features in use
    ('stationary', 5)
    """
    return Hinge() + _param("lam", lam) * ExpL0(_param("a", a))


def cap_one_norm_svm(lam: Scalar, a: Scalar = 1.0) -> Objective:
    """The capped 1-norm SVM: hinge loss plus the non-convex penalty `lam sum_j min(a, |w_j|)`.

    Ong and Le Thi (2013), equation (9).

    Parameters
    ----------
    lam : float
        As in `zero_norm_svm`.
    a : float
        The positive threshold of `min(a, |w_j|)`, above which a weight is not shrunk.
    """
    return Hinge() + _param("lam", lam) * CappedL1(_param("a", a))


def rlsvm2(lam: Scalar, mu: Scalar = 1.0) -> Objective:
    """The ramp-loss SVM, non-convex and robust to outliers: ramp loss plus `lam ||w||_2^2`.

    Ong and Le Thi (2013), appendix A.4.

    Parameters
    ----------
    lam : float
        The positive weight of the penalty.
    mu : float
        In (0, 1]: the ramp falls from `mu` to `-mu^2`; 1 is the truncated hinge loss.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * L2()


def rlsvm1(lam: Scalar, mu: Scalar = 1.0) -> Objective:
    """The sparse ramp-loss SVM, non-convex: ramp loss plus `lam ||w||_1`.

    Ong and Le Thi (2013), appendix A.5.

    Parameters
    ----------
    lam, mu : float
        As in `rlsvm2`.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * L1()


def rlsvm0(lam: Scalar, mu: Scalar = 1.0, a: Scalar = 4.0) -> Objective:
    """The 0-norm ramp-loss SVM, non-convex: ramp loss plus `lam sum_j (1 - exp(-a |w_j|))`.

    Ong and Le Thi (2013), equation (8).

    Parameters
    ----------
    lam, mu, a : float
        As in `rlsvm2` and `zero_norm_svm`.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * ExpL0(_param("a", a))


def rlsvmc1(lam: Scalar, mu: Scalar = 1.0, a: Scalar = 1.0) -> Objective:
    """The capped 1-norm ramp-loss SVM, non-convex: ramp loss plus `lam sum_j min(a, |w_j|)`.

    Ong and Le Thi (2013), equation (10).

    Parameters
    ----------
    lam, mu, a : float
        As in `rlsvm2` and `cap_one_norm_svm`.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * CappedL1(_param("a", a))
