"""The named models of the papers, each one line of the language.

Every argument that is a number becomes a `Param` of the same name, so that it can be tuned. A `Param`, or
arithmetic of some, stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from ucm.errors import CompositionError, brief
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import KLBall, LossBall, NormBall
from ucm.language.losses import Exponential, Hinge, Ramp, SquaredHinge
from ucm.language.node import Param, Scalar, Tunable
from ucm.language.objective import Objective
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


def _param(name: str, number: Any) -> Tunable:
    return number if isinstance(number, Tunable) else Param(name, number)


def nu_svm(nu: Scalar) -> UncertaintySet:
    """The nu-SVM: two reduced convex hulls, the cap of a weight `2 / (m nu)`.

    Its x and objective are twice those of Ito, Takeda and Toh (2015), equation (12), where each
    class has mass 1/2.

    Parameters
    ----------
    nu : float
        Of the cap `2 / (m nu)` of a weight; the larger, the smaller the set.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.nu_svm(0.3).params()
    {'nu': 0.3}
    """
    p = _param("nu", nu)
    return ReducedHull(pos, nu=p) - ReducedHull(neg, nu=p)


def enu_svm(nu: Scalar, norm: float = 2.0) -> RobustMargin:
    """The extended nu-SVM: the nu-SVM with `||w||_p = 1`, for every nu in (0, 2 min(m+, m-) / m].

    The same set as `nu_svm`, with the norm p of w. Where the reduced hulls meet it is not convex, and
    "auto" goes over to the solvers of that side. Barbero, Takeda and Lopez (2015), equations (2) and (7).

    Parameters
    ----------
    nu : float
        Of the cap `2 / (m nu)` of a weight; the larger, the smaller the set.
    norm : float
        The p of the norm of w, at least 1.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.enu_svm(0.2, norm=1.5).params()
    {'nu': 0.2}
    """
    return RobustMargin(nu_svm(nu), norm)


def mm_mpm(kappa: Scalar) -> UncertaintySet:
    """The margin-maximised minimax probability machine: one ellipsoid per class, radius kappa.

    Ito, Takeda and Toh (2015), equation (32).

    Parameters
    ----------
    kappa : float
        The size of the set.
    """
    k = _param("kappa", kappa)
    return Ellipsoid(pos.mean, pos.cov, k) - Ellipsoid(neg.mean, neg.cov, k)


def mm_fda(kappa: Scalar) -> UncertaintySet:
    """The margin-maximised Fisher discriminant: one ellipsoid of the difference of the means.

    Ito, Takeda and Toh (2015), equation (34).

    Parameters
    ----------
    kappa : float
        The size of the set.
    """
    return Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, _param("kappa", kappa))


def generalised_nu_svm(loss: ConvexLoss, lam: Scalar = 1.0) -> UncertaintySet:
    """The generalised nu-SVM: `min -rho + (1/m) sum l(rho - margin_i)` over `||w||_2 <= lam`, b and rho.

    The set is the hull whose weights lie in the ball of l* of the radius of its optimum (Lemma 5), which is
    found where the model meets data. `Solution.w`, `b` and `rho` are those of norm 1: times lam they solve
    the problem. Ito, Takeda and Toh (2015), equations (22) and (25).

    Parameters
    ----------
    loss : ConvexLoss
        l without an offset, `max(0, u)^p` for `Hinge(p)`. `Hinge() / nu` is the nu-SVM, whatever lam.
    lam : float
        Positive, and below the value from which on w = 0 is optimal.

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
    """The l2-loss nu-SVM: weights with mass 1/2 per class and `||q||_2 <= kappa`.

    By nu it is `min -rho + (1/(m nu)) sum xi_i^2` over `||w||_2 <= 1`, whose kappa is found with the data.
    Ito, Takeda and Toh (2015), equations (38) and (40).

    Parameters
    ----------
    kappa : float
        The size of the set.
    nu : float
        In place of kappa: positive; the larger, the smaller the set.

    Raises
    ------
    CompositionError
        Both or neither are given.
    """
    if _by("l2_nu_svm", {"kappa": kappa}, {"nu": nu}):
        return Hull(signed, weights=NormBall(_param("kappa", kappa)))
    return Hull(signed, weights=LossBall(SquaredHinge() / _param("nu", nu), lam=1.0))


def biased_l2_nu_svm(
    kappa_pos: Scalar | None = None,
    kappa_neg: Scalar | None = None,
    *,
    nu_pos: Scalar | None = None,
    nu_neg: Scalar | None = None,
) -> UncertaintySet:
    """The biased l2-loss nu-SVM: one norm bound per class.

    The kappas are twice those of Ito, Takeda and Toh (2015), equation (42): mass 1 per class. By the nus it
    is their (44), `min -rho + sum_o (1/(m nu_o)) sum_{i in o} xi_i^2` over `||w||_2 <= 1`.

    Parameters
    ----------
    kappa_pos : float
        The bound for class +1.
    kappa_neg : float
        The bound for class -1.
    nu_pos, nu_neg : float
        In place of these.

    Raises
    ------
    CompositionError
        Other than two kappas or two nus are given.
    """
    kappas = {"kappa_pos": kappa_pos, "kappa_neg": kappa_neg}
    nus = {"nu_pos": nu_pos, "nu_neg": nu_neg}
    if _by("biased_l2_nu_svm", kappas, nus):
        plus, minus = (NormBall(_param(name, k)) for name, k in kappas.items())
    else:
        losses = (SquaredHinge() / _param(name, nu) for name, nu in nus.items())
        plus, minus = (LossBall(loss, lam=1.0) for loss in losses)
    return Hull(pos, weights=plus) - Hull(neg, weights=minus)


def kl_svm(alpha: Scalar | None = None, *, lam: Scalar | None = None) -> UncertaintySet:
    """The exponential-loss model: weights within `-log alpha` of uniform in divergence.

    By lam it is `min -rho + (1/m) sum exp(rho - margin_i)` over `||w||_2 <= lam`. Ito, Takeda and Toh (2015),
    equations (46) and (48).

    Parameters
    ----------
    alpha : float
        In (0, 1]; the smaller, the larger the set.
    lam : float
        In place of alpha: positive; the larger, the larger the set.

    Raises
    ------
    CompositionError
        Both or neither are given.
    """
    if _by("kl_svm", {"alpha": alpha}, {"lam": lam}):
        return Hull(signed, weights=KLBall(_param("alpha", alpha)))
    return generalised_nu_svm(Exponential(), _param("lam", lam))


def _by(model: str, sizes: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether a model is given by the sizes of its set, not by the parameters of its problem."""
    given = [name for name, x in {**sizes, **own}.items() if x is not None]
    if given not in (list(sizes), list(own)):
        raise CompositionError(
            f"{model}: expected {' and '.join(sizes)}, or {' and '.join(own)}, got "
            f"{', '.join(given) or 'none'}; give the ones or the others"
        )
    return given == list(sizes)


def psvm(p: float = 1.5, C: Scalar = 1.0) -> Objective:
    """The pSVM: `C sum max(0, 1 - margin)^p + ||w||_2^2 / 2`. p = 1 is the soft-margin SVM.

    p is a plain number, C a `Param`. Sun (2024), equation (9).

    Parameters
    ----------
    p : float
        The power of the hinge loss, at least 1; no `Param`.
    C : float
        The weight of the losses.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.psvm(1.5, 2.0).params()
    {'C': 2.0}
    """
    return _param("C", C) * Hinge(p) + 0.5 * L2()


def coherent_mm_mpm(kappa: Scalar) -> UncertaintySet:
    """MM-MPM with each ellipsoid cut to the convex hull of its class, a coherent risk.

    Ito, Takeda and Toh (2015), Example 5.

    Parameters
    ----------
    kappa : float
        The size of the set.
    """
    k = _param("kappa", kappa)
    positive = Ellipsoid(pos.mean, pos.cov, k) & Hull(pos)
    return positive - (Ellipsoid(neg.mean, neg.cov, k) & Hull(neg))


def coherent_mm_fda(kappa: Scalar) -> UncertaintySet:
    """MM-FDA cut to the difference of the convex hulls, a coherent risk.

    Ito, Takeda and Toh (2015), equation (50).

    Parameters
    ----------
    kappa : float
        The size of the set.
    """
    ellipsoid = Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, _param("kappa", kappa))
    return ellipsoid & (Hull(pos) - Hull(neg))


def group_dro(groups: Sequence[str | float], beta: Scalar = 1.0) -> UncertaintySet:
    """Worst groups: of each class the union over groups of the means of the worst part beta of a group.

    The margin is that of the worst group of each class, where a pooled hull has that of the worst samples
    among all, few of which are of a rare group. Group distributionally robust optimisation, Sagawa, Koh,
    Hashimoto and Liang (2020), with tail means in place of means of losses.

    Parameters
    ----------
    groups : two labels or more
        Of the labels `subgroup` that `ucm.compile` and `Classifier.fit` are given; every one has samples of
        both classes.
    beta : float
        In (0, 1]: the part of every group that counts; 1 is all of it, whose mean is then a point.

    Raises
    ------
    CompositionError
        Fewer than two groups, one of them twice, a string or no sequence in the place of their labels, or a
        label that is neither a string nor a number.

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


def svm(lam: Scalar) -> Objective:
    """The support vector machine: hinge loss and `lam ||w||_2^2`.

    Ong and Le Thi (2013), appendix A.1. In the usual form `C sum xi + ||w||^2 / 2`, `lam = 1 / (2 C)`.

    Parameters
    ----------
    lam : float
        The weight of the penalty.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.svm(0.5)
    Hinge() + Param('lam', 0.5) * L2()
    """
    return Hinge() + _param("lam", lam) * L2()


def one_norm_svm(lam: Scalar) -> Objective:
    """The 1-norm SVM: hinge loss and `lam ||w||_1`.

    Ong and Le Thi (2013), appendix A.2.

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    """
    return Hinge() + _param("lam", lam) * L1()


def zero_norm_svm(lam: Scalar, a: Scalar = 4.0) -> Objective:
    """The 0-norm SVM: hinge loss and the exponential stand-in of the number of features.

    Ong and Le Thi (2013), appendix A.3.

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    a : float
        As in `ExpL0`.
    """
    return Hinge() + _param("lam", lam) * ExpL0(_param("a", a))


def cap_one_norm_svm(lam: Scalar, a: Scalar = 1.0) -> Objective:
    """The capped 1-norm SVM: hinge loss and `lam sum min(a, |w_j|)`.

    Ong and Le Thi (2013), equation (9).

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    a : float
        As in `CappedL1`.
    """
    return Hinge() + _param("lam", lam) * CappedL1(_param("a", a))


def rlsvm2(lam: Scalar, mu: Scalar = 1.0) -> Objective:
    """Ramp loss and `lam ||w||_2^2`.

    Ong and Le Thi (2013), appendix A.4.

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    mu : float
        In (0, 1]: where the ramp begins; 1 is the truncated hinge loss.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * L2()


def rlsvm1(lam: Scalar, mu: Scalar = 1.0) -> Objective:
    """Ramp loss and `lam ||w||_1`.

    Ong and Le Thi (2013), appendix A.5.

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    mu : float
        In (0, 1]: where the ramp begins; 1 is the truncated hinge loss.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * L1()


def rlsvm0(lam: Scalar, mu: Scalar = 1.0, a: Scalar = 4.0) -> Objective:
    """Ramp loss and the exponential stand-in of the number of features.

    Ong and Le Thi (2013), equation (8).

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    mu : float
        In (0, 1]: where the ramp begins; 1 is the truncated hinge loss.
    a : float
        As in `ExpL0`.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * ExpL0(_param("a", a))


def rlsvmc1(lam: Scalar, mu: Scalar = 1.0, a: Scalar = 1.0) -> Objective:
    """Ramp loss and `lam sum min(a, |w_j|)`.

    Ong and Le Thi (2013), equation (10).

    Parameters
    ----------
    lam : float
        The weight of the penalty.
    mu : float
        In (0, 1]: where the ramp begins; 1 is the truncated hinge loss.
    a : float
        As in `CappedL1`.
    """
    return Ramp(_param("mu", mu)) + _param("lam", lam) * CappedL1(_param("a", a))
