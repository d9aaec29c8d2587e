"""Worst means of losses, held against CVXPY programs that are written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import ucm
from ucm import (
    L1,
    L2,
    Box,
    CappedL1,
    CappedSimplex,
    ChiSquareBall,
    CompositionError,
    EmptySetError,
    Exponential,
    Hinge,
    KLBall,
    LeastSquares,
    Logistic,
    NormBall,
    Objective,
    Param,
    Ramp,
    SquaredHinge,
    WorstMean,
    neg,
    pos,
    signed,
)

_rng = np.random.default_rng(7)
_m, _n = 44, 3
_y = np.where(np.arange(_m) % 5 < 2, 1.0, -1.0)
_X = _rng.standard_normal((_m, _n)) + 0.6 * _y[:, None]
_groups = np.where(_rng.random(_m) < 0.4, "A", "B")
_w, _b = cp.Variable(_n), cp.Variable()
_t = cp.multiply(_y, _X @ _w + _b)
_hinge, _logistic, _ridge = cp.pos(1 - _t), cp.logistic(-_t), 0.05 * cp.sum_squares(_w)
_lam = 0.05 * L2()


def _cvar(losses: Any, beta: float) -> Any:
    """Return the mean of the worst part beta, by Rockafellar and Uryasev."""
    rho = cp.Variable()
    return rho + cp.sum(cp.pos(losses - rho)) / (beta * losses.size)


def _chi_square(losses: Any, rho: float) -> Any:
    """Return the dual of the worst mean over the chi-square ball, with a free part below the losses."""
    N, level, above = losses.size, cp.Variable(), cp.Variable(losses.size)
    away = above - level
    return level + cp.sum(away) / N + np.sqrt(rho / N) * cp.norm(away), [above >= losses]


def _kl(losses: Any, radius: float) -> Any:
    """Return the dual of the worst mean over the relative entropy ball, by exponential cones."""
    N, s, level, e = losses.size, cp.Variable(nonneg=True), cp.Variable(), cp.Variable(losses.size)
    x = cp.Variable(N)
    return level + radius * s, [x >= losses - level, cp.ExpCone(x, s * np.ones(N), e), cp.sum(e) / N <= s]


def _mean(losses: Any, chosen: Any) -> Any:
    return cp.sum(losses[np.flatnonzero(chosen)]) / np.count_nonzero(chosen)


def _both(*parts: Any) -> tuple[Any, list]:
    return sum(p[0] for p in parts), [c for p in parts for c in p[1]]


def _ratio(c: Any) -> CappedSimplex:
    return CappedSimplex(c, relative=True)


_A, _B, _k, _N = _groups == "A", _groups == "B", 7, np.ones(_m) / _m
_CASES: dict[str, tuple[Objective, Any]] = {
    "CVaR of the hinge loss": (
        WorstMean(Hinge(), _ratio(1 / 0.2)) + _lam,
        lambda: (_cvar(_hinge, 0.2) + _ridge, []),
    ),
    "average of the k largest hinge losses": (
        WorstMean(Hinge(), CappedSimplex(1 / _k)) + 0.05 * L1(),
        lambda: (cp.sum_largest(_hinge, _k) / _k + 0.05 * cp.norm1(_w), []),
    ),
    "largest loss": (WorstMean(SquaredHinge()) + _lam, lambda: (cp.max(cp.square(_hinge)) + _ridge, [])),
    "chi-square ball of logistic losses": (
        WorstMean(Logistic(), ChiSquareBall(0.6)) + _lam,
        lambda: _both(_chi_square(_logistic, 0.6), (_ridge, [])),
    ),
    "chi-square ball of hinge losses": (
        WorstMean(Hinge(), ChiSquareBall(0.6)) + _lam,
        lambda: _both(_chi_square(_hinge, 0.6), (_ridge, [])),
    ),
    "relative entropy ball of logistic losses": (
        WorstMean(Logistic(), KLBall(np.exp(-0.2))) + _lam,
        lambda: _both(_kl(_logistic, 0.2), (_ridge, [])),
    ),
    "total variation": (
        WorstMean(Logistic(), NormBall(0.3, p=1, around="uniform")) + _lam,
        lambda: (0.15 * cp.max(_logistic) + 0.85 * _cvar(_logistic, 0.85) + _ridge, []),
    ),
    "groups": (
        WorstMean(Logistic(), groups=(signed.group("A"), signed.group("B"))) + _lam,
        lambda: (cp.maximum(_mean(_logistic, _A), _mean(_logistic, _B)) + _ridge, []),
    ),
    "bounded weights of the groups of one class, and of the other class": (
        WorstMean(Hinge(), Box(0.1, 0.6), groups=(pos.group("A"), pos.group("B"), neg)) + _lam,
        lambda: (
            cp.suppfunc(q := cp.Variable(3), [cp.sum(q) == 1, q >= 0.1, q <= 0.6])(v := cp.Variable(3))
            + _ridge,
            [v >= cp.hstack([_mean(_hinge, g) for g in ((_y > 0) & _A, (_y > 0) & _B, _y < 0)])],
        ),
    ),
    "spectral risk": (
        0.3 * WorstMean(Hinge(), _ratio(8)) + 0.7 * WorstMean(Hinge(), _ratio(1)) + _lam,
        lambda: (0.3 * _cvar(_hinge, 1 / 8) + 0.7 * cp.sum(_hinge) / _m + _ridge, []),
    ),
    "one class beside a plain loss of the other": (
        WorstMean(Hinge(on=pos), _ratio(3)) + 0.1 * Logistic(on=neg) + _lam,
        lambda: (_cvar(_hinge[_y > 0], 1 / 3) + 0.1 * cp.sum(_logistic[_y < 0]) + _ridge, []),
    ),
    "a multiple of the worst mean of one class": (
        3.0 * WorstMean(2.0 * Hinge(on=pos), _ratio(3)) + 0.1 * Hinge(on=neg) + _lam,
        lambda: (6.0 * _cvar(_hinge[_y > 0], 1 / 3) + 0.1 * cp.sum(_hinge[_y < 0]) + _ridge, []),
    ),
    "beside a plain loss of the same samples": (
        WorstMean(SquaredHinge(), _ratio(4)) + Hinge() / _m + _lam,
        lambda: (_cvar(cp.square(_hinge), 0.25) + cp.sum(_hinge) / _m + _ridge, []),
    ),
    "a loss that grows on both sides": (
        WorstMean(LeastSquares(), _ratio(4)) + _lam,
        lambda: (_cvar(cp.square(1 - _t), 0.25) + _ridge, []),
    ),
    "an intersection": (
        WorstMean(Hinge(), _ratio(2) & NormBall(0.17)) + _lam,
        lambda: (
            cp.suppfunc(q := cp.Variable(_m), [cp.sum(q) == 1, q >= 0, q <= 2 / _m, cp.norm(q) <= 0.17])(
                v := cp.Variable(_m)
            )
            + _ridge,
            [v >= _hinge],
        ),
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_worst_mean_has_the_optimum_of_a_program_by_hand(name: str) -> None:
    model, program = _CASES[name]
    height, constraints = program()
    expected = cp.Problem(cp.Minimize(height), constraints).solve(solver="CLARABEL")
    plan = ucm.compile(model, _X, _y, subgroup=_groups)
    solution = plan.solve()
    assert solution.status == "optimal"
    assert solution.stats.solver == ("clarabel" if name == "an intersection" else "prox-alm")
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert model.value(_y * (_X @ solution.w + solution.b), solution.w, _y, None, _groups) == pytest.approx(
        expected, rel=1e-6
    )
    assert plan.verify()
    again = plan.certify(w=solution.w, b=solution.b, weights=solution.weights)
    assert 0.0 <= again.relative_gap + 1e-9 <= (1e-5 if name != "spectral risk" else 0.1)
    assert ucm.from_json(ucm.to_json(model)) == model == eval(repr(model), vars(ucm) | globals())


def test_uniform_weights_give_the_mean_of_the_loss() -> None:
    sample_weight = _rng.integers(1, 4, _m).astype(float)
    for loss in (Hinge(), Logistic(), Exponential()):
        for D in (_ratio(1), Box(1 / sample_weight.sum(), 1.0), KLBall(1.0), ChiSquareBall(0.0)):
            worst = ucm.solve(WorstMean(loss, D) + _lam, _X, _y, sample_weight=sample_weight)
            plain = ucm.solve(loss / sample_weight.sum() + _lam, _X, _y, sample_weight=sample_weight)
            assert worst.objective == pytest.approx(plain.objective, rel=1e-6)


def test_a_weight_of_a_sample_is_a_repetition() -> None:
    c = 1 + np.arange(_m) % 3
    rows = np.repeat(np.arange(_m), c)
    for D in (
        _ratio(3),
        ChiSquareBall(level=0.95),
        KLBall(0.7),
        NormBall(0.05, around="uniform"),
        CappedSimplex(nu=0.4),
    ):
        model = WorstMean(Logistic(), D) + WorstMean(Hinge(), D, groups=(pos, neg)) / 4 + _lam
        once = ucm.solve(model, _X, _y, sample_weight=c, class_weight={1: 2, -1: 1})
        often = ucm.solve(model, _X[rows], _y[rows], class_weight={1: 2, -1: 1})
        assert once.objective == pytest.approx(often.objective, rel=1e-6)


def test_the_reference_problem_keeps_the_parameters() -> None:
    beta, rho, lam = Param("beta", 0.3), Param("rho", 0.5), Param("lam", 0.1)
    model = WorstMean(Hinge(), _ratio(1 / beta)) + WorstMean(Logistic(), ChiSquareBall(rho)) + lam * L2()
    problem = ucm.compile(model, _X, _y).reference()
    assert problem.is_dpp() and {"beta", "rho", "lam"} <= problem.param_dict.keys()
    for name, x in (("beta", 0.6), ("rho", 0.2), ("lam", 0.3)):
        problem.param_dict[name].value = x
    other = model.with_params(beta=0.6, rho=0.2, lam=0.3)
    assert problem.solve(solver="CLARABEL") == pytest.approx(ucm.solve(other, _X, _y).objective, rel=1e-5)


@pytest.mark.parametrize("penalty", [_lam, 0.05 * CappedL1(1)])
@pytest.mark.parametrize("plain", [0, Ramp() / _m])
def test_a_worst_mean_stands_in_a_difference_of_convex_functions(penalty: Any, plain: Any) -> None:
    plan = ucm.compile(WorstMean(Hinge(), _ratio(4)) + plain + penalty, _X, _y, solver="dca")
    solution = plan.solve()
    assert solution.status in ("optimal", "local", "stationary") and solution.certificate.relative_gap <= 1e-6
    assert plan.verify()


def test_a_kernel_takes_a_worst_mean() -> None:
    model = WorstMean(Hinge(), _ratio(4)) + _lam
    solution = ucm.solve(model, _X, _y, kernel="rbf", gamma=0.5)
    K = np.exp(-0.5 * ((_X[:, None] - _X) ** 2).sum(axis=2))
    root = np.linalg.cholesky(K + 1e-12 * np.eye(_m))
    w, b = cp.Variable(_m), cp.Variable()
    losses = cp.pos(1 - cp.multiply(_y, root @ w + b))
    height = _cvar(losses, 0.25) + 0.05 * cp.sum_squares(w)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(
        cp.Problem(cp.Minimize(height)).solve(solver="CLARABEL"), rel=1e-6
    )


def test_a_classifier_and_a_search_take_a_worst_mean() -> None:
    model = WorstMean(Hinge(), _ratio(1 / Param("beta", 0.5))) + Param("lam", 0.1) * L2()
    fitted = ucm.Classifier(model).fit(_X, _y)
    assert fitted.certificate_.relative_gap <= 1e-6  # type: ignore[union-attr]
    assert fitted.decision_function(_X).shape == (_m,)
    search = ucm.ClassifierCV(model, param_name="beta", param_range=[0.2, 0.9], cv=3).fit(_X, _y)
    assert search.best_params_["model__beta"] in (0.2, 0.9)
    found = ucm.path(model, _X, _y, lam=[0.3, 0.1])
    assert [s.status for s in found] == ["optimal", "optimal"]


def test_worst_means_satisfy_the_laws_of_losses() -> None:
    groups = (pos.group("A"), signed.group("B"))
    ucm.testing.check_loss(WorstMean(Logistic(), groups=groups) / 2 + WorstMean(Hinge(2)))
    ucm.testing.check_loss(WorstMean(Hinge(), _ratio(3) & ChiSquareBall(0.4)) + Ramp())


_worst_mean: Any = WorstMean
_REFUSED = [
    (lambda: _worst_mean(Ramp()), "one convex loss"),
    (lambda: _worst_mean(Hinge(on=pos) + Hinge(2, on=neg)), "one convex loss"),
    (lambda: _worst_mean(Hinge(), ucm.CVaR(pos, 0.3)), "of a set of points"),
    (lambda: _worst_mean(Hinge(), 0.3), "domain of weights"),
    (lambda: _worst_mean(Hinge(), Box([0.0, 0.1], [1.0, 1.0])), "bounds for each sample"),
    (lambda: _worst_mean(Hinge(), ucm.LossBall(Logistic() / 0.3, lam=1.0)), "give the radius"),
    (lambda: _worst_mean(Hinge(), groups=(signed,)), "pos or neg"),
    (lambda: _worst_mean(Hinge(), groups=pos), "groups are samples"),
    (lambda: _worst_mean(Hinge(on=pos), groups=(pos, neg)), "drop `on`"),
    (lambda: -1 * _worst_mean(Hinge()), "positive"),
    (lambda: _worst_mean(Hinge(on=pos)).value([1.0, 2.0]), "the labels"),
    (lambda: _worst_mean(Hinge(), groups=(pos, neg)).value([1.0, 2.0]), "the labels"),
]


@pytest.mark.parametrize(("declare", "words"), _REFUSED, ids=[words for _, words in _REFUSED])
def test_a_wrong_declaration_is_refused(declare: Any, words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        declare()


def test_a_domain_without_weights_for_the_samples_at_hand_is_refused() -> None:
    for D, words in (
        (CappedSimplex(1 / 50), "at least 0.0227"),
        (_ratio(0.5), "at least 1"),
        (Box(0.0, 0.01), "at least 0.0227"),
        (_ratio(1.5) & Box(0.0, 0.01), "at least"),
        (_ratio(1) & NormBall(0.149), "at least"),
        (_ratio(1.01) & Box(0.5, 1.0), "at most"),
    ):
        with pytest.raises(EmptySetError, match=words):
            ucm.compile(WorstMean(Hinge(), D) + _lam, _X, _y)
    for loss, y, weights in (
        (WorstMean(Hinge()), [1.0, 1.0], [0.0, 0.0]),
        (WorstMean(Hinge(on=pos)), [-1.0, -1.0], None),
        (WorstMean(Hinge(), groups=(pos, neg)), [1.0, 1.0], None),
    ):
        with pytest.raises(EmptySetError, match="a mean needs one"):
            loss.value(np.zeros(2), np.array(y), None if weights is None else np.array(weights))
    with pytest.raises(EmptySetError, match="at least"):
        ucm.compile(WorstMean(Hinge(on=pos), CappedSimplex(1 / 40)) + _lam, _X, _y)
    with pytest.raises(ucm.DataError, match="group"):
        ucm.compile(WorstMean(Hinge(), groups=(pos.group("C"),)) + _lam, _X, _y, subgroup=_groups)


def test_a_size_of_the_weights_has_an_admissible_interval() -> None:
    p = Param("p", 0.5, relative=True)
    for D, low, high in (
        (_ratio(1 / p), 0.0, 1.0),
        (CappedSimplex(p), 1 / _m, np.inf),
        (KLBall(p), 0.0, 1.0),
        (ChiSquareBall(p), 0.0, np.inf),
    ):
        model = WorstMean(Logistic(), D) + _lam
        found = ucm.admissible(model.substitute({"p": 0.4}), _X, _y)["p"]
        assert (found.lower, found.upper) == pytest.approx((low, high))
        value = ucm.solve(model, _X, _y).params["p"]
        expected = 0.5 * (low + high) if np.isfinite(high) else 1.5 * low or 1.0
        assert value == pytest.approx(expected)


@pytest.mark.parametrize("D", [KLBall(0.6), ChiSquareBall(0.5), NormBall(0.2, p=3)], ids=str)
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(on=pos), Exponential()], ids=str)
def test_worst_means_over_balls_take_the_augmented_lagrangian(loss: Any, D: Any) -> None:
    model = WorstMean(loss, D) + 0.01 * Logistic() + _lam
    plan = ucm.compile(model, _X * [1e-3, 1.0, 1e3], _y)
    solution = plan.solve()
    assert plan.solver.name == solution.stats.solver == "prox-alm"
    conic = ucm.solve(model, _X * [1e-3, 1.0, 1e3], _y, solver="clarabel")
    assert solution.status == conic.status == "optimal"
    assert solution.objective == pytest.approx(conic.objective, rel=1e-6)
    for intercept in (None, "penalised"):
        fixed = ucm.compile(model.with_intercept(intercept, 2.0), _X, _y)
        solution = fixed.solve()
        assert solution.status == "optimal" and fixed.verify()
        assert intercept is not None or solution.b == 0.0
        assert solution.stats.solver == "prox-alm"
    for other, reason in (
        (WorstMean(Hinge(), D & _ratio(3)) + _lam, "intersection"),
        (WorstMean(loss, D) + ucm.LInf() + ucm.LinearConstraint(np.ones((1, _n)), ub=0.0), "proximal map"),
    ):
        conic = ucm.compile(other, _X, _y)
        assert conic.solver.name == "clarabel" and reason in str(conic.explain())
        with pytest.raises(ucm.SolverError, match=reason):
            ucm.compile(other, _X, _y, solver="prox-alm")


def test_multiplier_steps_of_worst_means_end_at_the_limit() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    model = WorstMean(Hinge(), ChiSquareBall(0.3)) + 0.001 * L2()
    plan = ucm.compile(model, X, y, solver="prox-alm")
    for limit in (1, 2):
        with pytest.warns(ucm.ConvergenceWarning):
            solution = plan.solve(max_iter=limit)
        assert solution.status == "max_iter" and solution.stats.iterations == limit
    with pytest.warns(ucm.ConvergenceWarning):
        solution = plan.solve(callback=lambda record: record["iteration"] >= 2)
    assert solution.status == "interrupted" and solution.stats.iterations == 2
    assert plan.solve().status == "optimal"


def test_the_uniform_distribution_alone_is_verified() -> None:
    """A KL ball of radius 0, where the cones of the reference have no interior."""
    plan = ucm.compile(WorstMean(Hinge(), KLBall(1.0)) + _lam, _X, _y)
    mean = ucm.solve(Hinge() + _y.size * _lam, _X, _y)
    assert plan.solve().objective == pytest.approx(mean.objective / _y.size, rel=1e-6)
    assert plan.verify()


def test_slopes_that_overflow_have_no_kink() -> None:
    """The weights of an answer elsewhere, at margins where the slopes of an exponential are infinite."""
    plan = ucm.compile(WorstMean(ucm.Exponential(), KLBall(0.5)) + _lam, _X, _y)
    found = plan.certify(w=np.full(_X.shape[1], -1e4), b=0.0, weights=np.ones(_y.size) / _y.size)
    assert found.primal == np.inf and found.dual < np.inf


_DOMAINS = {"CVaR": _ratio(4), "chi-square": ChiSquareBall(0.6), "box": Box(0.3 / _m, 3 / _m)}


def _worst_tail(losses: Any, c: Any, beta: float) -> Any:
    rho = cp.Variable()
    return rho + c @ cp.pos(losses - rho) / (beta * c.sum())


def _optimum(D: str, losses: Any, penalty: Any, inside: Any) -> float:
    """Return the optimum of a worst mean over samples of weight 1, by CVXPY."""
    if D == "CVaR":
        height = cp.sum_largest(losses, _m // 4) / (_m // 4)
    elif D == "box":
        height = 0.3 * cp.sum(losses) / _m + 0.7 * _cvar(losses, 0.7 / 2.7)
    else:
        height, more = _chi_square(losses, 0.6)
        inside = [*inside, *more]
    return cp.Problem(cp.Minimize(height + penalty), inside).solve(solver="CLARABEL")


@pytest.mark.parametrize("D", _DOMAINS)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_worst_means_take_penalties_and_constraints(D: str, scale: float) -> None:
    row, ridge = np.array([1.0, -2.0, 0.5]), _lam / scale**2
    for loss, losses in ((Hinge(), _hinge), (Logistic(), _logistic)):
        for penalty, terms, inside in (
            (ridge, _ridge, []),
            (0.02 * L1() / scale, 0.02 * cp.norm1(_w), []),
            (0.1 * ucm.LInf() / scale, 0.1 * cp.norm_inf(_w), []),
            (ridge + ucm.LinearConstraint(row / scale, -0.02, 0.02), _ridge, [cp.abs(row @ _w) <= 0.02]),
            (ridge + ucm.Bounds(-0.1 * scale, 0.2 * scale), _ridge, [_w >= -0.1, _w <= 0.2]),
        ):  # fmt: skip
            model = WorstMean(loss, _DOMAINS[D]) + penalty
            solution = ucm.solve(model, _X / scale, _y)
            case = f"{loss} {penalty}"
            assert (solution.status, solution.stats.solver) == ("optimal", "prox-alm"), case
            assert solution.objective == pytest.approx(_optimum(D, losses, terms, inside), rel=2e-6), case


@pytest.mark.parametrize("beta", [0.6, 0.1, 1 / _m])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_the_cvar_of_the_hinge_is_two_hulls_or_boxes(beta: float, lam: float) -> None:
    """Scaled losses, weights, and classes so apart that no loss in the tail is positive."""
    c = 1.0 + np.arange(_m) % 3
    for apart in (0.0, 5.0):
        X = _X + apart * _y[:, None]
        losses = 3.0 * cp.pos(1 - cp.multiply(_y, X @ _w + _b))
        height = _worst_tail(losses, c, beta) + lam * cp.sum_squares(_w)
        expected = cp.Problem(cp.Minimize(height)).solve(solver="CLARABEL", tol_gap_rel=1e-10)
        model = WorstMean(3.0 * Hinge(), _ratio(1 / beta)) + lam * L2()
        solution = ucm.solve(model, X, _y, sample_weight=c)
        assert (solution.status, solution.stats.solver) == ("optimal", "prox-alm")
        assert solution.objective == pytest.approx(expected, rel=2e-6, abs=1e-8)


def test_constraints_that_exclude_every_w_beside_a_worst_mean_are_refused() -> None:
    model = (
        WorstMean(Hinge(), _ratio(4)) + _lam + ucm.LinearConstraint([[1.0, 1, 1], [1, 1, 1]], [1, -9], [9, 0])
    )
    with pytest.raises(CompositionError, match="contradict each other"):
        ucm.solve(model, _X, _y)


def test_a_hinge_loss_without_intercept_has_the_optimum_of_a_program_by_hand() -> None:
    c = np.arange(_m) % 3
    program = cp.Problem(cp.Minimize(c @ cp.pos(1 - cp.multiply(_y, _X @ _w)) / _m + _ridge))
    expected = program.solve(solver="CLARABEL")
    for scale in (1e-4, 1.0, 1e4):
        model = (Hinge() / _m + _lam / scale**2).with_intercept(None)
        solution = ucm.solve(model, _X / scale, _y, sample_weight=c)
        assert (solution.status, solution.stats.solver, solution.b) == ("optimal", "prox-alm", 0.0)
        assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_a_certificate_looks_on_until_its_tolerance_is_met() -> None:
    """The given weights are bad, and the objective is small against 1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    X[:, 0] += y
    plan = ucm.compile(ucm.WorstMean(ucm.Hinge(), CappedSimplex(0.1)) + 1e-3 * ucm.L2(), X, y)
    given = replace(plan.solve().answer, multipliers=(0.1 * (np.arange(40) < 10),))
    assert plan.lowering.certify(given, 1e-3).certificate.relative_gap <= 1e-3


def test_the_violation_of_every_set_of_weights_counts() -> None:
    X = np.array([
        [2.3, 0.5, -0.4, 0.2],
        [-2.1, 1.1, 0.3, 0.3],
        [2, -0.5, 1.3, 1.1],
        [1.3, -1.6, 0.7, 0.4],
        [0.1, 0, -0.5, 0.4],
        [-0.1, -0.7, 0, 2.5],
        [-2.2, -2.4, -0.2, 0.2],
        [0.3, -2.4, -0.9, -0.2],
        [-2.6, 0.7, 0.3, -2],
        [1.4, -0.6, 1.4, 1.4],
        [1.1, -0.1, 0.9, -1.4],
        [0.7, 0.6, 0.2, 0.7],
        [-0.4, -0.1, -0.8, -0.5],
        [-0.8, 0.2, -0.2, -0.2],
        [0.6, -1.9, 0.6, 1],
        [0, 1, 0.5, 2.1],
        [1.5, 0.7, 1.3, 0.6],
        [-0.5, 0.1, 1.3, 1.2],
        [0.9, -1, -1, 0.5],
    ])  # fmt: skip
    y = np.where(np.isin(np.arange(19), [1, 6, 8, 10, 12, 13]), -1.0, 1.0)
    capped = WorstMean(Logistic(), KLBall(0.2) & CappedSimplex(2 / 19))
    plan = ucm.compile(capped + 0.5 * WorstMean(Logistic(), CappedSimplex(0.5)) + 0.23 * L2(), X, y)
    slopes = np.zeros(19)
    slopes[[1, 4, 6, 7, 10, 11, 12, 13, 16, 17]] = [
        0.032,
        0.136,
        0.039,
        0.067,
        0.079,
        0.035,
        0.104,
        0.042,
        0.015,
        0.042,
    ]
    certificate = plan.certify(w=[0.4, -0.1, 0.0, 0.6], b=0.0, weights=slopes)
    assert certificate.dual <= plan.solve().objective * (1.0 + 1e-7)
