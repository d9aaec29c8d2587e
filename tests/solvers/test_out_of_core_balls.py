"""Newton's method over rows for weights in balls, beside the same samples in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from row_samples import LOSSES, MODELS, GivenWeights, blocks, samples
from scipy import sparse
from scipy.optimize import brentq
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.compiler.compile import plan_of
from ucm.data.first_pass import first_pass
from ucm.evidence.rows import certify_hulls
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import HullProof
from ucm.solvers import NewtonRows


@pytest.mark.parametrize("size", [1e-6, 0.3, 4.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.3])
def test_balls_of_rows_do_not_ask_how_large_weights_are(alpha: float, size: float) -> None:
    """That of the large radius holds every point of the simplex, whatever a row weighs."""
    X, y = samples(60)
    X, ball = X + 1.5 * y[:, None], ucm.KLBall(alpha)
    weights = size * np.random.default_rng(0).uniform(0.1, 1.0, y.size)
    model = ucm.Hull(pos, weights=ball) - ucm.Hull(neg, weights=ball)
    rows = ucm.solve(model, ucm.open_rows(X, y, sample_weight=weights))
    memory = ucm.solve(model, X, y, sample_weight=weights)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_weights_outside_of_a_small_ball_prove_nothing() -> None:
    """They exceed the radius 1e-6 by 5e-10; their point is nearer by 1e-7 than the nearest of the ball."""
    X, y = samples(60)
    X, ball, radii = X + 1.5 * y[:, None], ucm.KLBall(0.3), (1e-6, 1.0005e-6)
    form: Any = ucm.compile(
        ucm.Hull(pos, weights=ball) - ucm.Hull(neg, weights=ball), blocks(X, y)
    ).lowering.form
    small, larger = (replace(form, balls=tuple((loss, r) for loss, _ in form.balls)) for r in radii)
    nearest, beyond = (NewtonRows().solve(each, Monitor(1e-9)).rows for each in (small, larger))
    proven = certify_hulls(small, nearest)[0]
    assert proven.relative_gap <= 2e-9
    assert certify_hulls(larger, beyond)[0].dual > proven.primal + 1e-7
    assert certify_hulls(small, beyond)[0].dual <= proven.primal


def test_a_point_that_counts_as_zero_does_so_by_its_certificate() -> None:
    """Its norm is 1.2e-9 of the size of its classes, and less of that of the held rows and the band."""
    rng = np.random.default_rng(54)
    m, n = int(rng.choice([300, 2000, 8000])), int(rng.integers(1, 30))
    scale = 10.0 ** rng.uniform(-3, 3)
    shift = 10.0 ** rng.uniform(-1, 3) * rng.standard_normal(n)
    X, noise = scale * (rng.standard_normal((m, n)) + shift), rng.choice([0.5, 2.0, 20.0])
    y = np.where(X[:, 0] / scale - shift[0] + noise * rng.standard_normal(m) > 0, 1, -1)
    found = ucm.solve(ucm.models.nu_svm(0.6), ucm.open_rows(X, y))
    assert found.status == "zero_in_set" and not found.w.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["p = 2", "two kl"])
def test_a_nan_that_comes_later_reaches_the_value(name: str) -> None:
    X, y = samples()
    plan = ucm.compile({**LOSSES, **BALLS}[name], blocks(X, y))
    X[0, 0] = np.nan
    with pytest.raises(ucm.UCMError):
        plan.solve()


BALLS = {
    "l2": ucm.models.l2_nu_svm(0.05),
    "biased l2": ucm.models.biased_l2_nu_svm(0.1, 0.09),
    "kl": ucm.models.kl_svm(0.5),
    "two kl": ucm.Hull(pos, weights=ucm.KLBall(0.6)) - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
    "chi-square": ucm.Hull(pos, weights=ucm.ChiSquareBall(rho=0.5))
    - ucm.Hull(neg, weights=ucm.ChiSquareBall(level=0.95)),
    "around": ucm.Hull(pos, weights=ucm.NormBall(0.03, around="uniform"))
    - 0.5 * ucm.Hull(neg, weights=ucm.NormBall(0.02, around="uniform")),
    "losses": ucm.Hull(pos, weights=ucm.LossBall(ucm.Hinge(3) / 0.5, 1.2))
    - ucm.Hull(neg, weights=ucm.LossBall(ucm.Logistic() * 4, -1.7)),
    "mixed": ucm.Hull(pos, weights=ucm.NormBall(0.2, p=1.5)) - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
}


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        *((name, None) for name in BALLS),
        ("kl", (2.0, 0.7)),
        ("mixed", (2.0, 0.7)),
        ("chi-square", (2.0, 0.7)),
    ],
)
def test_weights_in_balls_agree_with_memory(name: str, weight: Any) -> None:
    X, y = samples(700)
    plan = ucm.compile(BALLS[name], blocks(X, y), class_weight=weight)
    rows, memory = plan.solve(), ucm.solve(BALLS[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.stats.solver == "newton-rows"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=2e-3)
    weights = known(memory.weights)
    assert np.asarray(rows.weights) == pytest.approx(weights, abs=2e-3 * weights.max())
    for ours, theirs in zip(rows.summand_points or (), memory.summand_points or (), strict=True):
        assert ours == pytest.approx(theirs, abs=3e-3)
    if weight is None and name in ("kl", "losses", "mixed"):
        assert plan.verify().agrees


@pytest.mark.parametrize("name", ["l2", "two kl"])
def test_weights_in_balls_agree_with_the_whole_twin(name: str) -> None:
    X, y = samples(300)
    model = ucm.models.l2_nu_svm(0.1) if name == "l2" else BALLS[name]
    rows = ucm.solve(model, blocks(sparse.csr_matrix(X), y, 40))
    whole = ucm.compile(model, X, y).reference()
    whole.solve(solver="CLARABEL")
    assert rows.objective == pytest.approx(float(whole.value), rel=1e-5)  # type: ignore[arg-type]


def balls(weights: Any, others: Any = None) -> Any:
    others = weights if others is None else others
    return ucm.Hull(pos, weights=weights) - ucm.Hull(neg, weights=others)


@pytest.mark.parametrize(
    "model",
    [
        balls(ucm.KLBall(1.0)),
        balls(ucm.NormBall(0.0, around="uniform")),
        balls(ucm.ChiSquareBall(rho=0.0), ucm.ChiSquareBall(rho=0.5)),
    ],
)
def test_balls_of_one_point_have_the_bias_of_memory(model: Any) -> None:
    X, y = samples(300)
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert (rows.b, rows.rho) == pytest.approx((memory.b, memory.rho), abs=1e-5)


@pytest.mark.parametrize("scale", [1e160, 1e-160])
@pytest.mark.parametrize("name", ["nu", "two kl"])
def test_hulls_of_rows_whose_squares_overflow_are_refused(name: str, scale: float) -> None:
    X, y = samples()
    with pytest.raises(ucm.DataError, match="scale the features"):
        ucm.compile({**MODELS, **BALLS}[name], blocks(scale * X, y))


NOT_BINDING = {
    "kl": balls(ucm.KLBall(1e-3)),
    "chi-square": balls(ucm.ChiSquareBall(rho=1e6)),
    "one of two": balls(ucm.KLBall(1e-3), ucm.KLBall(0.6)),
    "nearly all": balls(ucm.KLBall(0.007)),
    "nearly all, chi-square": balls(ucm.ChiSquareBall(rho=100.0)),
    "below a cap": balls(ucm.LossBall(3.0 * ucm.HuberHinge(0.5), 0.3)),
    "below a cap, logistic": balls(ucm.LossBall(3.0 * ucm.Logistic(), 0.3)),
}


@pytest.mark.parametrize("weight", [None, (2.0, 0.7)])
@pytest.mark.parametrize("name", NOT_BINDING)
def test_balls_that_do_not_bind(name: str, weight: Any) -> None:
    X, y = samples(400)
    X[y > 0] += 3.0
    rows = ucm.solve(NOT_BINDING[name], blocks(X, y), class_weight=weight)
    memory = ucm.solve(NOT_BINDING[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=3e-3)


def test_a_point_of_two_balls_is_no_nearer_than_their_optimum() -> None:
    X, y = samples(3000, 5)
    X[y > 0] += 1.0
    X *= np.abs(np.random.default_rng(0).standard_t(3.0, (3000, 1)))
    model = balls(ucm.ChiSquareBall(rho=0.1))
    rows, memory = ucm.solve(model, blocks(X, y, 500)), ucm.solve(model, X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize("alpha", [0.9, 0.1])
def test_heavy_tails_in_kl_balls(alpha: float) -> None:
    X, y = samples(3000, 5)
    X *= np.abs(np.random.default_rng(0).standard_t(3.0, (3000, 1)))
    model = balls(ucm.KLBall(alpha))
    rows, memory = ucm.solve(model, blocks(X, y, 500)), ucm.solve(model, X, y, solver="ssnal")
    assert rows.status == memory.status == ("optimal" if alpha == 0.9 else "zero_in_set")
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize(("alpha", "status"), [(0.9, "optimal"), (0.5, "zero_in_set")])
def test_rows_whose_weights_overflow_join_the_sample(alpha: float, status: str) -> None:
    X, y = samples(20_000, 5)
    X *= np.abs(np.random.default_rng(0).standard_t(1.5, (20_000, 1)))
    model = ucm.models.kl_svm(alpha)
    found, memory = ucm.solve(model, blocks(X, y, 1000)), ucm.solve(model, X, y, solver="ssnal")
    assert found.status == memory.status == status and found.stats.reads <= 16
    assert found.objective == pytest.approx(memory.objective, rel=2e-6)


def test_one_row_a_class_in_balls() -> None:
    X, y = np.array([[0.0], [2.0]]), np.array([-1.0, 1.0])
    for ball in (ucm.KLBall(0.6), ucm.ChiSquareBall(rho=0.5)):
        found = ucm.solve(balls(ball), blocks(X, y))
        assert (found.status, found.objective, found.b) == ("optimal", -2.0, -1.0)


def test_rows_outside_of_the_first_sample_enter_the_answer() -> None:
    X, y = samples(20_000)
    X *= np.abs(np.random.default_rng(1).standard_t(2.5, (20_000, 1)))
    few = first_pass(blocks(X, y, 500))
    few.sample = few.sample[0][:800], few.sample[1][:800]
    model = ucm.Hull(pos, weights=ucm.KLBall(0.9)) - ucm.Hull(neg, weights=ucm.KLBall(0.9))
    found = plan_of(ucm.RobustMargin(model), few, None, "auto").solve()
    memory = ucm.solve(model, X, y)
    assert found.status == memory.status == "optimal" and found.stats.reads <= 12
    assert found.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize(
    "model",
    [
        ucm.models.kl_svm(0.1),
        ucm.Hull(pos, weights=ucm.NormBall(0.3)) - ucm.Hull(neg, weights=ucm.KLBall(0.2)),
    ],
)
def test_zero_in_balls_is_proven(model: Any) -> None:
    X, y = samples(1200)
    found = ucm.solve(model, blocks(X, y, 200))
    assert found.status == "zero_in_set" and found.certificate.violation <= 1e-6
    assert ucm.solve(model, X, y, solver="ssnal").status == "zero_in_set"


@pytest.mark.parametrize("at", [0.0, 1.0])
@pytest.mark.parametrize(
    "U", [ucm.models.nu_svm(0.4), ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.1))], ids=str
)
def test_rows_without_a_direction_hold_0(U: Any, at: float) -> None:
    """All rows are one point, where hulls lie on one another."""
    X, y = np.full((60, 3), at), np.where(np.arange(60) % 2 > 0, 1.0, -1.0)
    rows, memory = ucm.solve(U, blocks(X, y, 7)), ucm.solve(U, X, y)
    assert rows.status == memory.status == "zero_in_set"
    assert not rows.w.any() and rows.objective == 0.0


def test_rows_that_overflow_are_named() -> None:
    X, y = samples(4000)
    X[:20] *= 1e200
    few = first_pass(blocks(X[20:], y[20:], 500))
    few.source = blocks(X, y, 500)
    with (
        np.errstate(all="ignore"),
        pytest.warns(ucm.ConvergenceWarning, match="scale the features"),
    ):
        found = plan_of(ucm.RobustMargin(BALLS["two kl"]), few, None, "auto").solve()
    assert found.status == "stalled" and not found.w.any()


def test_balls_end_between_rounds() -> None:
    X, y = samples(20_000)
    with pytest.warns(ucm.ConvergenceWarning):
        timed_out = ucm.solve(BALLS["kl"], blocks(X, y, 4000), time_limit=1e-6)
    assert timed_out.status == "time_limit"
    with pytest.warns(ucm.ConvergenceWarning):
        one = ucm.solve(BALLS["kl"], blocks(X, y, 4000), tol=1e-12, callback=lambda _: True)
    assert one.status == "interrupted" and 0.0 <= one.certificate.relative_gap < 1.0


def _threshold(loss: Any, scores: Any, t: float, mass: float) -> float:
    """mu where the slopes have this sum."""
    far = 10.0 * (t + np.abs(scores).max())
    root: Any = brentq(lambda mu: loss.gradient((scores - mu) / t).sum() - mass, -far, far)
    return root


@pytest.mark.parametrize("matched", [False, True])
def test_balls_proven_from_any_multipliers(matched: bool) -> None:
    """The bounds hold the optimum; the second is of a point of the set, with any masses."""
    rng = np.random.default_rng(2)
    X, y = samples(80, 3)
    joint, some = ucm.Hull(signed, weights=ucm.LossBall(ucm.SquaredHinge(), 0.6)), 0
    apart = ucm.Hull(pos, weights=ucm.KLBall(0.7)) - ucm.Hull(neg, weights=ucm.KLBall(0.4))
    for model in (joint, apart):
        optimum = ucm.solve(model, X, y, tol=1e-9).objective
        form: Any = ucm.compile(model, blocks(X, y, 30)).lowering.form
        for size in (0.1, 1.0, 10.0):
            w, t = rng.standard_normal(3), size * rng.uniform(0.5, 2.0, len(form.balls))
            mu, sums, weights = rng.standard_normal(2), [], []
            for c, on in enumerate((y > 0.0, y < 0.0)):
                loss, own, share = form.balls[form.of[c]][0], t[form.of[c]], form.scales[c]
                scores, mass = -form.factors[c] * (X[on] @ w), form.weight_sums[c] / share
                if matched:
                    mu[c] = _threshold(loss, scores, float(own), mass)
                v = (scores - mu[c]) / own
                q = share * loss.gradient(v)
                each = (
                    share * loss.each(loss.offset - v).sum(),
                    share * loss.conjugate(q / share).sum(),
                )
                sums.append((*each, max(q.sum(), 1e-300), q @ X[on], X[on].mean(axis=0)))
                weights.append(q)
            losses, all_heights, totals, at, means = map(np.array, zip(*sums, strict=True))
            scale, shift = form.within(totals, all_heights)
            shifts = shift * form.data.counts
            points = scale[:, None] * at + shifts[:, None] * means
            p = np.empty(y.size)
            for c, on in enumerate((y > 0.0, y < 0.0)):
                p[on] = scale[c] * weights[c] + shift[c]
            proof = HullProof(w, mu, t, losses, points, rows=GivenWeights(X, y, p))
            found, _ = certify_hulls(form, proof)
            assert found.primal >= optimum - 1e-8 and found.dual <= optimum + 1e-8
            assert found.violation == 0.0
            heights, x = np.zeros(len(form.balls)), np.zeros(3)
            for c, on in enumerate((y > 0.0, y < 0.0)):
                p = scale[c] * weights[c] + shift[c]
                assert p.sum() == pytest.approx(form.weight_sums[c]) and p.min() >= 0.0
                share, x = form.scales[c], x + form.factors[c] * (p @ X[on])
                heights[form.of[c]] += share * form.balls[form.of[c]][0].conjugate(p / share).sum()
            assert (heights <= [radius + 1e-9 for _, radius in form.balls]).all()
            assert np.linalg.norm(x) == pytest.approx(-found.dual, rel=1e-9)
            some += shift.any()
    assert some >= 3
