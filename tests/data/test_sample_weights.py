"""What samples weigh: `sample_weight` and `class_weight`, a weight being a repetition."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from catalogue import LOSSES, OTHER_LOSSES, SETS
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)
from typed import scikit, untyped

import ucm
from ucm import models, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.data.kernels import kernel_of
from ucm.errors import CompositionError, DataError, EmptySetError, SolverError
from ucm.testing import check_loss

RNG = np.random.default_rng(0)
COPIES = RNG.integers(0, 4, 40)
Y = np.where(RNG.random(40) < 0.5, 1.0, -1.0)
X = RNG.standard_normal((40, 3)) + np.outer(Y, [1.2, 0.6, 0.0])
X2, Y2 = np.repeat(X, COPIES, axis=0), np.repeat(Y, COPIES)
GENERAL = RNG.uniform(0.2, 3.0, 40) * (COPIES > 0)  # no whole numbers

SIGNED = {
    "l2": ucm.NormBall(0.16),
    "p-norm": ucm.NormBall(0.3, p=1.5),
    "largest": ucm.NormBall(0.06, p=np.inf),
    "kl": ucm.KLBall(0.9),
    "logistic": ucm.LossBall(ucm.Logistic() / 0.3, -1.2),
    "squared hinge": ucm.LossBall(ucm.SquaredHinge(), 0.4),
    "both": ucm.NormBall(0.2) & ucm.Box(0.0, 0.06),
}
NAMED = {
    "nu_svm": models.nu_svm(0.6),
    "enu_svm": models.enu_svm(0.6, 1.5),
    "enu_svm beyond": models.enu_svm(0.1),
    "mm_mpm": models.mm_mpm(0.3),
    "mm_fda": models.mm_fda(0.3),
    "l2_nu_svm": models.l2_nu_svm(0.16),
    "biased_l2_nu_svm": models.biased_l2_nu_svm(0.3, 0.3),
    "kl_svm": models.kl_svm(0.9),
    "coherent_mm_mpm": models.coherent_mm_mpm(0.5),
    "coherent_mm_fda": models.coherent_mm_fda(0.5),
    "psvm": models.psvm(1.5),
    "svm": models.svm(0.5),
    "one_norm_svm": models.one_norm_svm(0.5),
    "zero_norm_svm": models.zero_norm_svm(0.5),
    "cap_one_norm_svm": models.cap_one_norm_svm(0.5),
    "rlsvm2": models.rlsvm2(0.5),
    "rlsvm1": models.rlsvm1(0.5),
    "rlsvm0": models.rlsvm0(0.5),
    "rlsvmc1": models.rlsvmc1(0.5),
    **{name: ucm.Hull(signed, weights=D) for name, D in SIGNED.items()},
    "signed moments": ucm.Ellipsoid(signed.mean, signed.cov, 0.2),
    "least squares": ucm.LeastSquares() + 0.5 * ucm.L2(),
    "huber": ucm.HuberHinge(0.5) + 0.5 * ucm.L1(),
    "exponential": ucm.Exponential() + ucm.L2(),
    "sum of losses": ucm.Hinge() + 0.5 * ucm.Logistic() + ucm.L1(),
    "of one class": ucm.Hinge(1.5, on=pos) + 2 * ucm.Logistic(on=neg) + 0.5 * ucm.L2(),
}


# --- a weight is a repetition ------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMED)
def test_whole_weights_are_repetitions(name: str) -> None:
    model = NAMED[name]
    plan = untyped.compile(model, X, Y, sample_weight=COPIES)
    weighted, repeated = plan.solve(tol=1e-8), untyped.solve(model, X2, Y2, tol=1e-8)
    assert weighted.status == repeated.status
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-6)
    assert_allclose(weighted.w, repeated.w, atol=2e-4)
    assert weighted.b == pytest.approx(repeated.b, abs=2e-4)
    assert weighted.bias_rule == repeated.bias_rule
    if weighted.weights is not None:
        assert weighted.weights.size == 40 and not weighted.weights[COPIES == 0].any()
    if name != "enu_svm beyond":
        assert plan.verify().agrees, str(plan.verify())


@pytest.mark.parametrize("U", SETS, ids=lambda U: str(U)[:40])
def test_supports_with_weights_equal_repeated_samples(U: Any) -> None:
    groups = np.resize(["A", "A", "B", "B"], len(Y))
    weighted = bind(X, Y, None, COPIES, groups)
    repeated = bind(X2, Y2, subgroup=np.repeat(groups, COPIES))
    if U.infeasibility_reason(repeated) is not None:
        assert U.infeasibility_reason(weighted) is not None
        return
    for d in np.eye(U.dimension(3)):
        own, theirs = U.support(weighted, d, {})[0], U.support(repeated, d, {})[0]
        assert own == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", [*LOSSES, *OTHER_LOSSES], ids=repr)
def test_losses_of_the_catalogue_are_weighed(loss: Any) -> None:
    margin = np.linspace(-2.0, 2.5, 40)
    assert loss.value(margin, Y, COPIES.astype(float)) == pytest.approx(
        loss.value(np.repeat(margin, COPIES), Y2), rel=1e-12
    )


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e9])
def test_relative_weights_are_what_a_divergence_counts(unit: float) -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2 > 0, 1.0, -1.0)
    samples, c = rng.normal(size=(60, 3)) + 1.5 * y[:, None], rng.uniform(0.1, 1.0, 60)
    D = ucm.KLBall(0.05)
    for U in (ucm.Hull(pos, weights=D) - ucm.Hull(neg, weights=D), ucm.Hull(signed, weights=D)):
        for weights in (np.ones(60), c):
            wanted = ucm.solve(U, samples, y, sample_weight=weights, solver="clarabel")
            found = ucm.solve(U, samples, y, sample_weight=unit * weights)
            assert found.status == "optimal"
            assert found.objective == pytest.approx(wanted.objective, rel=2e-6)


@pytest.mark.parametrize("weights", [np.full(40, 0.01), np.linspace(0.005, 0.01, 40)])
@pytest.mark.parametrize("rows", [False, True])
def test_a_cap_below_the_weights_is_named_as_declared(weights: np.ndarray, rows: bool) -> None:
    given: Any = (ucm.open_rows(X, Y, sample_weight=weights),) if rows else (X, Y)
    with pytest.raises(EmptySetError, match=r"CappedSimplex\(0.2\): empty.*by their weights") as raised:
        ucm.solve(
            ucm.Hull(signed, weights=ucm.CappedSimplex(0.2)),
            *given,
            sample_weight=None if rows else weights,
        )
    least = 0.5 / min(weights[Y > 0].sum(), weights[Y < 0].sum())
    assert f"must be at least {least:.6g}" in str(raised.value)
    assert "class" not in str(raised.value)


@pytest.mark.parametrize("radius", [0.4, 1.1])
def test_a_weighted_ball_from_its_definition(radius: float) -> None:
    """`sum_i q_i^2 / c_i <= r^2` over distributions with mass 1/2 in each class, and no whole weights."""
    c, y = GENERAL[GENERAL > 0], Y[GENERAL > 0]
    Z = (X * Y[:, None])[GENERAL > 0]
    size = radius * 0.5 * np.sqrt(1 / c[y > 0].sum() + 1 / c[y < 0].sum()) + 0.05
    q = cp.Variable(c.size, nonneg=True)
    problem = cp.Problem(
        cp.Minimize(cp.norm2(Z.T @ q)),
        [cp.norm2(cp.multiply(q, c**-0.5)) <= size, q[y > 0].sum() == 0.5, q[y < 0].sum() == 0.5],
    )
    wanted = problem.solve(solver="CLARABEL")
    if problem.status == "infeasible":
        with pytest.raises(EmptySetError):
            untyped.solve(models.l2_nu_svm(size), X, Y, sample_weight=GENERAL)
        return
    found = untyped.solve(models.l2_nu_svm(size), X, Y, sample_weight=GENERAL)
    assert -found.objective == pytest.approx(wanted, rel=1e-5)


def test_moments_and_caps_from_their_definitions() -> None:
    data = bind(X, Y, None, GENERAL)
    kept = GENERAL > 0
    for kind, rows in (("pos", Y > 0), ("neg", Y < 0)):
        rows = rows & kept
        assert_allclose(data.mean(kind), np.average(X[rows], axis=0, weights=GENERAL[rows]))
        wanted = np.cov(X[rows].T, aweights=GENERAL[rows], bias=True)
        assert_allclose(data.covariance(kind), wanted, atol=1e-12)
        thin = bind(sparse.csr_matrix(X), Y, None, GENERAL)
        assert_allclose(thin.covariance(kind), wanted, atol=1e-12)
    solution = untyped.solve(models.nu_svm(0.6), X, Y, sample_weight=GENERAL)
    caps = 2.0 * GENERAL / (0.6 * GENERAL.sum())
    assert (solution.weights <= caps * (1 + 1e-9)).all()
    assert_allclose([solution.weights[Y > 0].sum(), solution.weights[Y < 0].sum()], 1.0)
    assert ucm.admissible(models.nu_svm(0.6), X, Y, sample_weight=GENERAL)["nu"].upper == (
        pytest.approx(2 * min(GENERAL[Y > 0].sum(), GENERAL[Y < 0].sum()) / GENERAL.sum())
    )


def test_weighted_losses_from_their_definition() -> None:
    w, b = cp.Variable(3), cp.Variable()
    margin = cp.multiply(Y, X @ w + b)
    loss = GENERAL @ cp.pos(1 - margin) + 3 * (GENERAL * (Y < 0)) @ cp.square(cp.pos(1 - margin))
    wanted = cp.Problem(cp.Minimize(loss + cp.sum_squares(w))).solve(solver="CLARABEL")
    model = ucm.Hinge() + 3 * ucm.SquaredHinge(on=neg) + ucm.L2()
    plan = untyped.compile(model, X, Y, sample_weight=GENERAL)
    found = plan.solve()
    assert found.objective == pytest.approx(wanted, rel=1e-6) and plan.verify()


# --- named solvers ------------------------------------------------------------------------------------
HONOUR: list[tuple[str, Any]] = [
    *((name, models.nu_svm(0.6)) for name in ("ssnal", "ssnal-cg", "apg", "clarabel", "ecos", "scs")),
    *((name, models.psvm()) for name in ("prox-alm", "clarabel")),
    ("alm", models.coherent_mm_mpm(0.5)), ("highs", models.one_norm_svm(0.5)),
    ("smo", models.psvm(1.0)), ("prox-newton", ucm.Logistic() + ucm.L1()),
    ("secular", models.mm_fda(0.3)), ("dca", models.rlsvm1(0.5)),
    ("highs", ucm.RobustMargin(models.nu_svm(0.6), norm=1.0)),
    ("level-set", models.enu_svm(0.6, 1.5)), ("linearize", models.enu_svm(0.1)),
    ("facets", models.enu_svm(0.1)),
]  # fmt: skip
REFUSE = ("active-set", "gsk", "mdm", "clip-gsk", "clip-mdm", "rapminos")


@pytest.mark.parametrize(("solver", "model"), HONOUR)
def test_named_solvers_honour_weights(solver: str, model: Any) -> None:
    named = untyped.solve(model, X, Y, sample_weight=GENERAL, solver=solver, tol=1e-4)
    best = untyped.solve(model, X, Y, sample_weight=GENERAL)
    assert named.objective == pytest.approx(best.objective, rel=1e-3)


@pytest.mark.parametrize("solver", REFUSE)
def test_solvers_of_one_cap_a_class_refuse_weights_by_name(solver: str) -> None:
    model = models.enu_svm(0.1) if solver == "rapminos" else models.nu_svm(0.6)
    with pytest.raises(SolverError, match=f"{solver!r} does not take this model"):
        untyped.solve(model, X, Y, sample_weight=GENERAL, solver=solver)
    # weights that are the same within each class leave one cap a class
    same = untyped.compile(model, X, Y, sample_weight=np.where(Y > 0, 2.0, 1.0))
    assert all(b.groups is not None for b in same.lowering.image.blocks)


# --- behind kernels -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["nu_svm", "psvm", "mm_fda", "kl_svm", "l2_nu_svm"])
def test_weights_with_a_kernel_equal_repeated_samples(name: str) -> None:
    model = models.nu_svm(0.9) if name == "nu_svm" else NAMED[name]
    plan = untyped.compile(model, X, Y, kernel="rbf", sample_weight=COPIES)
    weighted, repeated = plan.solve(), untyped.solve(model, X2, Y2, kernel="rbf")
    gram = plan.form.gram if name == "psvm" else plan.data.gram
    assert gram.kernel.gamma == pytest.approx(1 / (3 * X2.var()))
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-5)
    assert weighted.coefficients.size == 40 and not weighted.coefficients[COPIES == 0].any()
    assert_allclose(weighted.decision(X), repeated.decision(X), atol=2e-3)
    assert plan.verify().agrees
    K = gram.kernel(X, X)
    given = untyped.solve(model, K, Y, kernel="precomputed", sample_weight=COPIES)
    assert_allclose(given.decision(K), weighted.decision(X), atol=2e-3)


def test_the_width_of_a_kernel_far_from_0() -> None:
    kernel, _ = kernel_of("rbf", X + 1e8, COPIES.astype(float))
    assert kernel.gamma == pytest.approx(1 / (3 * X2.var()), rel=1e-6)


# --- the dialect ----------------------------------------------------------------------------------------
def test_one_dialect_of_class_weights() -> None:
    counts = (Y > 0).sum(), (Y < 0).sum()
    pair = 40 / (2 * counts[0]), 40 / (2 * counts[1])
    model = models.psvm()
    wanted = untyped.solve(model, X, Y, class_weight=pair).objective
    for given in ("balanced", {1: pair[0], -1: pair[1]}, np.array(pair), list(pair)):
        assert untyped.solve(model, X, Y, class_weight=given).objective == wanted
    one = untyped.solve(model, X, Y, class_weight={-1: 3.0})
    assert one.objective == untyped.solve(model, X, Y, class_weight=(1.0, 3.0)).objective
    both = untyped.solve(model, X, Y, class_weight="balanced", sample_weight=COPIES)
    assert both.objective == pytest.approx(untyped.solve(model, X2, Y2, class_weight="balanced").objective)


@pytest.mark.parametrize("name", [n for n in NAMED if n not in ("signed moments",)])
def test_class_weights_are_weights_of_the_samples(name: str) -> None:
    """But for m in nu, which they leave as it is."""
    if "nu_svm" in name and "l2" not in name:
        pytest.skip("m in nu: test_classifier has the caps")
    model, c = NAMED[name], np.where(Y > 0, 1.5, 0.75)
    by_class = untyped.solve(model, X, Y, class_weight={1: 1.5, -1: 0.75})
    by_sample = untyped.solve(model, X, Y, sample_weight=c)
    assert by_class.objective == pytest.approx(by_sample.objective, rel=2e-6)


@pytest.mark.parametrize("name", ["nu_svm", "mm_mpm", "biased_l2_nu_svm"])
def test_guarantees_with_weights_equal_repeated_samples(name: str) -> None:
    found = untyped.compile(NAMED[name], X, Y, sample_weight=COPIES).guarantees()
    wanted = untyped.compile(NAMED[name], X2, Y2).guarantees()
    assert [g.assumption for g in found] == [g.assumption for g in wanted]
    assert_allclose([g.value for g in found], [g.value for g in wanted], rtol=1e-5)


def test_the_path_takes_weights() -> None:
    found = ucm.path(models.nu_svm(0.6), X, Y, nu=[0.5, 0.6], sample_weight=COPIES, class_weight=(1, 2))
    alone = untyped.solve(models.nu_svm(0.6), X, Y, sample_weight=COPIES, class_weight=(1, 2))
    assert found[1].objective == pytest.approx(alone.objective, rel=1e-6)


BAD = {
    "negative": (np.where(np.arange(40) == 7, -1.0, 1.0), "got -1.0 for sample 7"),
    "NaN": (np.where(np.arange(40) == 3, np.nan, 1.0), "got nan for sample 3"),
    "infinite": (np.full(40, np.inf), "got inf"),
    "zeros": (np.zeros(40), "zeros only"),
    "length": (np.ones(39), "expected 40 numbers.* got 39"),
    "table": (np.ones((40, 1)), r"shape \(40, 1\)"),
    "a number": (2.0, r"shape \(\)"),
    "words": (["a"] * 40, "sample_weight"),
    "a class of zeros": (np.where(Y > 0, 1.0, 0.0), "class -1"),
    "masked": (np.ma.masked_greater(np.arange(40.0), 30.0), "masked"),
}


@pytest.mark.parametrize("case", BAD)
def test_weights_that_are_none(case: str) -> None:
    weights, words = BAD[case]
    words = "class" if case == "a class of zeros" else words
    for use in (ucm.compile, ucm.solve, ucm.admissible):
        with pytest.raises(DataError, match=words):
            use(models.nu_svm(0.5), X, Y, sample_weight=weights)  # type: ignore[operator]
    with pytest.raises(DataError, match=words):
        ucm.Classifier(models.nu_svm(0.5)).fit(X, Y, sample_weight=weights)


def test_models_without_a_meaning_for_weights_refuse_them() -> None:
    class Fixed(ucm.extend.Domain):
        def support(self, g: Any) -> Any:
            return 0.0, 0.0 * g

        def violation(self, q: Any) -> float:
            return 0.0

        def center(self, dim: int) -> Any:
            return np.full(dim, 1.0 / dim)

        def cvxpy(self, q: Any, size: Any) -> Any:
            return []

        def formula(self, notation: Any) -> str:
            return "q"

    with pytest.raises(CompositionError, match=r"Domain\.bind"):
        untyped.compile(ucm.Hull(pos, weights=Fixed()) - ucm.Hull(neg), X, Y, sample_weight=GENERAL)
    with pytest.raises(CompositionError, match="loss of all samples"):
        ucm.LossBall(ucm.Hinge(on=pos), 0.1)
    with pytest.raises(CompositionError, match="one class"):
        ucm.Hinge(on=pos).to_set(0.3)


@pytest.mark.parametrize("weights", [None, GENERAL], ids=["plain", "weighed"])
def test_the_weight_of_a_class_makes_no_more_samples(weights: Any) -> None:
    """The ball of a level is that of the samples, in a hull and in an intersection of domains."""
    level = ucm.ChiSquare(pos, level=0.95) - ucm.ChiSquare(neg, level=0.95)
    box = ucm.ChiSquareBall(level=0.95) & ucm.NormBall(1.0)
    for U in (level, ucm.Hull(pos, weights=box) - neg.mean):
        plan = untyped.compile(U, X, Y, class_weight=(3.0, 0.5), sample_weight=weights)
        found = plan.solve()
        wanted = untyped.solve(U, X, Y, sample_weight=weights)
        assert found.objective == pytest.approx(wanted.objective, rel=1e-6)
        assert plan.verify().agrees
    (told, _) = [g for g in untyped.compile(level, X, Y, class_weight=(3, 1)).guarantees() if g.probability]
    assert told.probability == pytest.approx(0.95)


# --- losses of one class ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "loss",
    [
        ucm.Hinge(on=pos),
        2 * ucm.Logistic(on=neg),
        ucm.Ramp(0.5, on=pos) + ucm.Hinge(),
        ucm.HuberHinge(0.3, on=neg),
        ucm.LeastSquares(on=pos),
        ucm.Exponential(on=pos),
        ucm.SquaredHinge(on=neg),
        ucm.Hinge(on=pos.group("A")) + 2 * ucm.Logistic(on=signed.group("B")),
        2 * ucm.Ramp(0.5, on=neg.group(3)),
    ],
    ids=repr,
)
def test_losses_of_one_class_keep_the_laws(loss: Any) -> None:
    check_loss(loss)
    assert ucm.from_json(ucm.to_json(loss)) == loss and eval(repr(loss), dict(vars(ucm))) == loss
    with pytest.raises(CompositionError, match="labels"):
        loss.value([0.5])


@pytest.mark.parametrize("penalty", [0.5 * ucm.L2(), 0.5 * ucm.L1(), 0.5 * ucm.CappedL1(1)], ids=repr)
def test_two_losses_of_one_class_are_class_weights(penalty: Any) -> None:
    for base in (ucm.Hinge, ucm.Logistic, ucm.Ramp):
        apart = base(on=pos) + 3 * base(on=neg) + penalty
        plan = untyped.compile(apart, X, Y)
        found, wanted = plan.solve(), untyped.solve(base() + penalty, X, Y, class_weight=(1, 3))
        assert found.stats.solver == wanted.stats.solver
        assert found.objective == pytest.approx(wanted.objective, rel=1e-6)
        assert plan.verify().agrees


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}], ids=str)
def test_two_hinges_of_one_class_each_are_one_of_pairs(options: dict[str, Any]) -> None:
    """Multipliers changed in pairs, linear and with a kernel."""
    apart = ucm.Hinge(on=pos) + 3 * ucm.Hinge(on=neg) + 0.5 * ucm.L2()
    plan = untyped.compile(apart, X, Y, solver="smo", sample_weight=GENERAL, **options)
    found = plan.solve()
    wanted = untyped.solve(models.psvm(1.0), X, Y, class_weight=(1, 3), sample_weight=GENERAL, **options)
    assert found.status == "optimal" and plan.verify().agrees
    assert found.objective == pytest.approx(wanted.objective, rel=2e-6)
    with pytest.raises(ucm.UCMError, match=r"smo|kernel"):
        untyped.compile(ucm.Hinge(on=pos) + ucm.L2(), X, Y, solver="smo", **options)


@pytest.mark.parametrize("penalty", [0.5 * ucm.L2(), 0.5 * ucm.L1()], ids=repr)
@pytest.mark.parametrize(
    "loss",
    [ucm.Hinge, ucm.SquaredHinge, ucm.Logistic, ucm.Exponential, ucm.HuberHinge, ucm.LeastSquares, ucm.Ramp],
)  # fmt: skip
def test_losses_of_groups_are_weights_of_samples(loss: Any, penalty: Any) -> None:
    """The sum of losses over groups, against the loss of all samples with weights; a group of a class that
    has no term is left out."""
    group = np.array(["A", "B", "C"])[np.arange(len(Y)) % 3]
    own = {"A": pos.group("A"), "B": neg.group("B"), "C": signed.group("C")}
    model = loss(on=own["A"]) + 3 * loss(on=own["B"]) + 0.2 * loss(on=own["C"]) + penalty
    cases = [(Y > 0) & (group == "A"), (Y < 0) & (group == "B"), group == "C"]
    c = np.select(cases, [1.0, 3.0, 0.2]) * COPIES
    plan = untyped.compile(model, X, Y, subgroup=group, sample_weight=COPIES)
    found, wanted = plan.solve(), untyped.solve(loss() + penalty, X, Y, sample_weight=c)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-6, abs=1e-7)
    assert plan.verify().agrees
    assert ucm.from_json(ucm.to_json(model)) == model and eval(repr(model), dict(vars(ucm))) == model
    assert r"y_{i} = +1, g_{i} = \mathrm{A}" in model.problem_latex()


@pytest.mark.parametrize("loss", [ucm.Hinge, ucm.Logistic])
def test_the_largest_penalty_of_losses_of_groups(loss: Any) -> None:
    """lam_max, whose upper end leaves w = 0, and less of which does not."""
    group = np.array(["A", "B"])[np.arange(len(Y)) % 2]
    model = loss(on=pos.group("A")) + 3 * loss(on=neg) + ucm.Param("lam", 0.5) * ucm.L1()
    end = ucm.admissible(model, X, Y, subgroup=group)["lam"].upper
    within, beyond = (
        untyped.solve(model.with_params(lam=c * end), X, Y, subgroup=group) for c in (0.99, 1.01)
    )
    assert np.abs(within.w).max() > 1e-5 and not beyond.w.any()


def test_the_largest_penalty_is_none_or_that_of_solves() -> None:
    """Random losses of groups: w = 0 is optimal above the end, by solves, and not below it."""
    rng = np.random.default_rng(4)
    m, known = 18, 0
    y = np.where(np.arange(m) < 12, 1.0, -1.0)
    X = rng.standard_normal((m, 2)) + 0.5 * y[:, None]
    group = np.array(["A", "B"])[np.arange(m) % 2]
    parts = [s.group(g) for s in (pos, neg, signed) for g in "AB"] + [pos, neg]
    losses = [ucm.Hinge(on=pos.group("A")) + 2 * ucm.Hinge(on=pos.group("B")) + ucm.Hinge(on=neg)]
    losses += [
        ucm.Hinge() + ucm.SquaredHinge(on=pos.group("A")),
        9 * ucm.Hinge(on=pos) + ucm.Hinge(),
    ]
    for _ in range(12):
        kinds = rng.permutation(len(parts))[:2]
        own = [ucm.Hinge if rng.random() < 0.7 else ucm.SquaredHinge for _ in kinds]
        extra = [float(rng.integers(1, 4)) * of(on=parts[k]) for of, k in zip(own, kinds, strict=True)]
        losses.append(ucm.Hinge() + extra[0] + extra[1])
    for loss in losses:
        for penalty in (ucm.L1(), ucm.LInf()):
            model = loss + ucm.Param("lam", 1.0) * penalty
            end = ucm.admissible(model, X, y, subgroup=group)["lam"].upper
            if np.isinf(end):
                continue
            known += 1
            within, beyond = (
                untyped.solve(model.with_params(lam=c * end), X, y, subgroup=group, tol=1e-8)
                for c in (0.98, 1.02)
            )
            assert np.abs(within.w).max() > 1e-5 > np.abs(beyond.w).max(), (loss, penalty)
    assert known > 5, known


def test_no_largest_penalty_where_b_meets_the_losses() -> None:
    """A loss of one class is least at w = 0 whatever lam: what is left of its slopes is rounding."""
    for on in (neg, pos):
        model = 3 * ucm.LeastSquares(on=on) + ucm.Param("lam", 1.0) * ucm.L1()
        assert np.isinf(ucm.admissible(model, X, Y)["lam"].upper)


def test_groups_of_losses_agree_with_separate_samples() -> None:
    model = ucm.Hinge(on=pos.group("A")) + ucm.L2()
    with pytest.raises(ucm.DataError, match="enable_metadata_routing"):
        ucm.solve(model, X, Y)
    with pytest.raises(ucm.DataError, match="one of the groups"):
        ucm.solve(model, X, Y, subgroup=["B"] * len(Y))
    assert (
        model.loss.value(np.array([0.5, 0.2, 0.1]), np.array([1.0, -1.0, 1.0]), None, ["A", "A", "B"]) == 0.5
    )
    fitted = ucm.Classifier(model).fit(X, Y, subgroup=["A"] * len(Y))
    assert fitted.solution_.status == "optimal"


def test_a_loss_of_one_class_alone_is_met_by_b() -> None:
    plan = untyped.compile(ucm.Hinge(on=pos) + ucm.L2(), X, Y)
    found = plan.solve()
    assert plan.verify().agrees
    assert found.objective == pytest.approx(0.0, abs=1e-9) and found.b >= 1.0 - 1e-9


def test_a_loss_refuses_other_samples_than_classes() -> None:
    for on in (signed, "pos", X, 1):
        with pytest.raises(CompositionError, match="on is pos or neg"):
            untyped.Hinge(on=on)
    with pytest.raises(CompositionError, match="takes p, on="):
        untyped.Hinge(1.0, pos)


# --- the estimator ----------------------------------------------------------------------------------------
def test_repetition_in_the_estimator_of_several_classes() -> None:
    A, t = scikit.load_iris(return_X_y=True)
    c = np.random.default_rng(3).integers(0, 3, t.size)
    A2, t2 = np.repeat(A, c, axis=0), np.repeat(t, c)
    several: list[dict[str, Any]] = [
        {},
        {"multi_class": "ovr", "class_weight": "balanced"},
        {"kernel": "rbf"},
    ]
    for options in several:
        heavy = ucm.Classifier(models.psvm(1.5), tol=1e-8, **options).fit(A, t, sample_weight=c)
        copied = ucm.Classifier(models.psvm(1.5), tol=1e-8, **options).fit(A2, t2)
        assert_allclose(heavy.decision_function(A), copied.decision_function(A), atol=1e-3)
        if "support_" in vars(heavy):
            assert (c[heavy.support_] > 0).all()


@pytest.mark.parametrize(
    "model",
    [
        models.psvm(1.5),
        models.psvm(1.0),
        models.nu_svm(0.2),
        models.l2_nu_svm(0.5),
        models.mm_mpm(0.1),
        ucm.Logistic() + ucm.L2(),
    ],
    ids=repr,
)
def test_scikit_learn_finds_weights_and_repetitions_the_same(model: Any) -> None:
    clf = ucm.Classifier(model, tol=1e-12)
    if hasattr(clf, "predict_proba"):  # of three classes, as there, "ovo" has none
        clf.set_params(multi_class="ovr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)
        check_sample_weight_equivalence_on_dense_data("Classifier", clf)
        check_sample_weight_equivalence_on_sparse_data("Classifier", clf)


@pytest.mark.parametrize("routing", [False, True])
def test_weights_reach_the_calibration(routing: bool) -> None:
    heavy = np.where(Y > 0, 20.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=routing):
        inner: Any = ucm.Classifier(models.psvm())
        if routing:
            inner.set_fit_request(sample_weight=True)
        clf: Any = CalibratedClassifierCV(inner)
        plain, moved = (clf.fit(X, Y, sample_weight=c).predict_proba(X) for c in (None, heavy))
    assert moved[:, 1].mean() > plain[:, 1].mean() + 0.1


def test_weights_are_routed_to_the_folds() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        clf: Any = ucm.Classifier(models.psvm())
        clf.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(clf, X, Y, cv=2, params={"sample_weight": COPIES}, return_estimator=True)
    for fold, (train, _) in zip(found["estimator"], StratifiedKFold(2).split(X, Y), strict=True):
        wanted = ucm.Classifier(models.psvm()).fit(X[train], Y[train], sample_weight=COPIES[train])
        assert_array_equal(fold.coef_, wanted.coef_)


def test_pictures_leave_out_samples_of_weight_zero() -> None:
    pytest.importorskip("matplotlib")
    found = ucm.Classifier(models.nu_svm(0.6)).fit(X[:, :2], Y, sample_weight=COPIES)
    shown = ucm.plot.SetDisplay.from_estimator(found, X[:, :2], Y)
    assert shown is not None
    kept = COPIES > 0
    zeros = ucm.Classifier(models.nu_svm(0.6)).fit(X[:, :2], Y, sample_weight=kept)
    ucm.plot.SetDisplay.from_estimator(zeros, X[:, :2], Y)
    options: dict[str, Any] = {"sample_weight": COPIES, "class_weight": {1: 1.5}}
    ucm.plot.SetDisplay.from_model(models.nu_svm(0.6), X[:, :2], Y, **options)
    weights = ucm.plot.WeightsDisplay.from_model(models.nu_svm(0.6), X, Y, **options).weights[""]
    assert weights[1].size + weights[-1].size == kept.sum()
