"""What fitted classifiers promise: every bound against the distributions that it names."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import bundled
import numpy as np
import pytest
from scipy.stats import beta, binom, norm
from typed import known

import ucm
from benchmarks.papers.coherent_loss import coherent_loss
from ucm import CVaR, Ellipsoid, Gelbrich, Param, Wasserstein, neg, pos
from ucm.extend import Guarantee

X, Y = bundled.load("breast_cancer")
LABELS = (1, -1)


def rows(model: Any, *test: Any, **options: Any) -> tuple[ucm.Solution, list[Guarantee]]:
    plan = ucm.compile(model, X, Y, **options)
    solution = plan.solve()
    return solution, list(plan.guarantees(solution, *test))


def of(found: list[Guarantee], what: str, label: int | None = None) -> list[Guarantee]:
    named = [g for g in found if g.what == what]
    return named if label is None else [g for g in named if g.of == f"class {label:+d}"]


def test_held_out_samples_come_first() -> None:
    wrong = np.where(np.arange(len(Y)) % 9 == 0, -Y, Y)
    solution, found = rows(ucm.models.mm_mpm(0.3), X, wrong)
    scores = solution.decision(X)
    for guarantee, kept in zip(found, (wrong != 0, wrong > 0, wrong < 0)):
        k, N = np.count_nonzero((wrong * scores <= 0) & kept), np.count_nonzero(kept)
        assert guarantee.what == "error" and guarantee.probability == 0.95
        assert binom.cdf(k, N, guarantee.value) == pytest.approx(0.05, abs=1e-9)
    assert found[3].probability is None


def test_a_score_of_0_is_an_error_of_either_class() -> None:
    plan = ucm.compile(ucm.Hull(pos) - ucm.Hull(neg), [[1.0, 0.0], [-1.0, 0.0]], [1, -1])
    test = np.array([[0.0, 3.0], [0.0, -1.0], [2.0, 0.0]])
    assert plan.solve().decision(test).tolist() == [0.0, 0.0, 2.0]
    found = plan.guarantees(None, test, [1, -1, 1])
    for guarantee, k, N in zip(found, (2, 1, 1), (3, 2, 1), strict=False):
        assert guarantee.value == pytest.approx(1.0 if k == N else beta.ppf(0.95, k + 1, N - k))


def test_one_class_in_the_test_and_every_sample_wrong() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.9), X, Y)
    scores = plan.solve().decision(X)
    some = X[scores > 0][:5]
    found = plan.guarantees(None, some, -np.ones(5), level=0.9)
    assert [g.of for g in found[:2]] == ["new samples", "class -1"] and found[0].value == 1.0


def test_a_score_of_zero_is_an_error() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.9), X, Y)
    flat = replace(plan.solve(), b=0.0)
    found = plan.guarantees(flat, np.zeros((4, X.shape[1])), [1, 1, -1, -1])
    assert [g.value for g in found[:3]] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("model", [ucm.models.mm_mpm(0.3), CVaR(pos, 0.8) - CVaR(neg, 0.8)], ids=repr)
def test_a_bias_of_zero_is_one(model: Any) -> None:
    plan = ucm.compile(model, X, Y)
    found = (plan.guarantees(replace(plan.solve(), b=b)) for b in (0.0, 1e-13))
    for zero, tiny in zip(*found, strict=True):
        assert zero.what == tiny.what and zero.value == pytest.approx(tiny.value, rel=1e-6)


def test_a_label_other_than_the_two_is_refused() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.9), X, Y)
    with pytest.raises(ucm.DataError, match=r"a label -1 or \+1 for each of 3 samples"):
        plan.guarantees(None, X[:3], [1, 2, -1])


def test_a_feature_without_weight_takes_no_promise_away() -> None:
    wide = np.hstack([X, np.zeros((len(Y), 1))])
    plan = ucm.compile(ucm.models.mm_mpm(0.3), wide, Y)
    assert plan.solve().w[-1] == 0.0
    found = list(plan.guarantees())
    for row, same in zip(found, rows(ucm.models.mm_mpm(0.3))[1], strict=True):
        assert row.value == pytest.approx(same.value, rel=1e-5)


def test_the_columns_of_the_table_are_aligned() -> None:
    plan = ucm.compile(ucm.models.mm_mpm(0.3), X, Y)
    found = plan.guarantees(None, X, Y)
    lines = [line for line in str(found).splitlines() if line.startswith(tuple(g.what for g in found))]
    places = {(line.index(g.sign), line.index(g.holds)) for line, g in zip(lines, found, strict=True)}
    assert len(lines) == len(found) > 3 and len(places) == 1


def test_moments_bound_the_error_and_are_attained() -> None:
    solution, found = rows(ucm.models.mm_mpm(0.3))
    for label in LABELS:
        margins = label * solution.decision(X[label == Y])
        k = margins.mean() / margins.std()
        assert k > 0
        bound, *others = of(found, "error", label)
        assert bound.value == pytest.approx(1 / (1 + k * k))
        assert bound.probability is None and "no probability" in bound.holds
        assert np.mean(margins <= 0) <= bound.value
        # a law on 0 and one more value has these moments, and this error
        p, other = bound.value, margins.mean() / (1 - bound.value)
        assert (1 - p) * other**2 - margins.mean() ** 2 == pytest.approx(margins.var())
        assert all(g.value < bound.value for g in others)


def test_uncertain_moments_weaken_the_bound() -> None:
    rho, v, n = 0.05, 0.1, X.shape[1]
    radius = 0.3 + Param("v", v)
    sides = [Ellipsoid(S.mean, S.cov + rho * np.eye(n), radius) for S in (pos, neg)]
    solution, found = rows(sides[0] - sides[1])
    for label in LABELS:
        margins = label * solution.decision(X[label == Y])
        k = margins.mean() / math.sqrt(margins.var() + rho) - v
        assert of(found, "error", label)[0].value == pytest.approx(1 / (1 + k * k))


def test_gelbrich_bounds_the_error_of_samples_that_move() -> None:
    eps, kappa = 0.1, 0.2
    solution, found = rows(Gelbrich(pos, eps, kappa) - Gelbrich(neg, eps, kappa))
    for label in LABELS:
        margins = label * solution.decision(X[label == Y])
        mean, sd = margins.mean(), margins.std()
        bound = of(found, "error", label)[0].value
        k = math.sqrt(1 / bound - 1)
        # the worst moments: a shift of the mean by s and a growth of the deviation by t, s^2 + t^2 = eps^2
        angle = np.linspace(0, np.pi / 2, 2001)
        worst = (mean - eps * np.cos(angle)) / (sd + eps * np.sin(angle))
        assert worst.min() == pytest.approx(k, rel=1e-5)


def test_reduced_hulls_are_tail_means() -> None:
    beta = 0.8
    solution, found = rows(CVaR(pos, beta) - CVaR(neg, beta))
    for label in LABELS:
        margins = np.sort(label * solution.decision(X[label == Y]))
        whole = int(beta * margins.size)
        tail = margins[:whole].sum() + (beta * margins.size - whole) * margins[whole]
        worst = of(found, "worst mean of minus the margin", label)[0]
        assert worst.value == pytest.approx(-tail / (beta * margins.size))
        assert (worst.value < 0) == bool(of(found, "part of the samples without a positive margin", label))
        if worst.value < 0:
            (part,) = of(found, "part of the samples without a positive margin", label)
            assert np.mean(margins <= 0) < part.value == pytest.approx(beta)


def test_the_worst_mean_over_weights_of_both_classes() -> None:
    """The samples of least margin, up to the cap and to the mass 1/2 of each class."""
    cap = 0.7 / min(np.sum(Y > 0), np.sum(Y < 0))
    solution, found = rows(ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(cap)))
    worst = 0.0
    for label in LABELS:
        margins = np.sort(label * solution.decision(X[label == Y]))
        whole = int(0.5 / cap)
        worst -= cap * margins[:whole].sum() + (0.5 - cap * whole) * margins[whole]
    (bound,) = of(found, "worst mean of minus the margin")
    assert bound.value == pytest.approx(worst) and "both classes" in bound.of


def test_moves_of_the_samples_are_in_the_worst_mean() -> None:
    beta, eps = 0.8, 0.05
    sides = [Wasserstein(S, eps, order=math.inf, beta=beta) for S in (pos, neg)]
    solution, found = rows(sides[0] - sides[1])
    plain, unmoved = rows(CVaR(pos, beta) - CVaR(neg, beta))
    assert np.allclose(plain.w, solution.w, atol=1e-4)
    name = "worst mean of minus the margin"
    assert sum(g.value for g in of(found, name)) == pytest.approx(
        sum(g.value for g in of(unmoved, name)) + 2 * eps, abs=1e-5
    )
    assert sum(g.value for g in of(found, name)) == pytest.approx(solution.objective, abs=1e-6)


def test_moves_in_another_norm_count_by_its_dual() -> None:
    beta, eps = 0.8, 0.02
    sides = [Wasserstein(S, eps, order=math.inf, beta=beta, norm=math.inf) for S in (pos, neg)]
    solution, found = rows(sides[0] - sides[1])
    for label in LABELS:
        margins = np.sort(label * solution.decision(X[label == Y]))
        whole = int(beta * margins.size)
        tail = margins[:whole].sum() + (beta * margins.size - whole) * margins[whole]
        expected = eps * np.abs(solution.w).sum() - tail / (beta * margins.size)
        (worst,) = of(found, "worst mean of minus the margin", label)
        assert worst.value == pytest.approx(expected)


def test_chi_square_is_an_asymptotic_bound_of_the_mean() -> None:
    solution, found = rows(ucm.ChiSquare(pos, level=0.95) - ucm.ChiSquare(neg, level=0.95))
    for label in LABELS:
        losses = -label * solution.decision(X[label == Y])
        bound = of(found, "true mean of minus the margin", label)[0]
        assert bound.probability == pytest.approx(0.95)
        spread = 1.6448536269514722 * losses.std() / math.sqrt(losses.size)
        assert bound.value == pytest.approx(losses.mean() + spread, rel=1e-6)


@pytest.mark.parametrize("around", [None, "uniform"])
def test_a_ball_of_weights_is_one_of_chi_square(around: str | None) -> None:
    """The chi-square of weights q of m samples is m |q - 1/m|^2, in a ball about 0 it is m |q|^2 - 1."""
    sides = []
    for S, label in ((pos, 1), (neg, -1)):
        rho, m = 0.02, np.count_nonzero(label == Y)
        ball = ucm.NormBall(math.sqrt((rho + (around is None)) / m), around=around)
        sides.append(ucm.Hull(S, weights=ball))
    _, found = rows(sides[0] - sides[1])
    for label in LABELS:
        (bound,) = of(found, "true mean of minus the margin", label)
        m = np.count_nonzero(label == Y)
        assert bound.probability == pytest.approx(norm.cdf(math.sqrt(0.02 * m)), rel=1e-9)


def test_the_area_under_the_curve() -> None:
    solution, found = rows(ucm.models.mm_fda(0.3))
    scores = solution.decision(X)
    pairs = scores[Y > 0][:, None] > scores[Y < 0][None]
    (area,) = of(found, "area under the ROC curve")
    assert area.lower and 0.5 < area.value <= pairs.mean()
    _, other = rows(ucm.Ellipsoid(pos.mean - neg.mean, neg.cov + pos.cov, 0.3))
    assert of(other, "area under the ROC curve")[0].value == pytest.approx(area.value, rel=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        ucm.models.mm_mpm(0.3),
        ucm.models.nu_svm(0.9),
        Gelbrich(pos, 0.1, 0.2) - Gelbrich(neg, 0.1, 0.2),
        Wasserstein(pos, 0.05, order=math.inf) - Wasserstein(neg, 0.05, order=math.inf),
    ],
    ids=["mpm", "nu", "moves of moments", "moves of samples"],
)
def test_guarantees_with_a_linear_kernel_equal_those_without(model: Any) -> None:
    _, plain = rows(model)
    kernels: Any = ((X, "linear"), (X @ X.T, "precomputed"))
    for given, kernel in kernels:
        hidden = list(ucm.compile(model, given, Y, kernel=kernel).guarantees())
        assert [g.what for g in plain] == [g.what for g in hidden] != []
        for one, other in zip(plain, hidden, strict=True):
            assert one.value == pytest.approx(other.value, rel=1e-4)


def test_weights_of_samples_count_as_copies() -> None:
    weights = np.tile([1, 2, 3, 1], len(Y) // 4)
    double = np.repeat(np.arange(len(Y)), weights)
    for model in (ucm.models.mm_mpm(0.3), CVaR(pos, 0.8) - CVaR(neg, 0.8)):
        found = ucm.compile(model, X, Y, sample_weight=weights).guarantees()
        wanted = ucm.compile(model, X[double], Y[double]).guarantees()
        assert [g.what for g in found][:1] == [g.what for g in wanted][:1] != []
        for name in ("error", "worst mean of minus the margin"):
            for one, other in zip(of(list(found), name), of(list(wanted), name), strict=True):
                assert one.value == pytest.approx(other.value, rel=1e-4)


def test_guarantees_print_as_text_and_table() -> None:
    plan = ucm.compile(ucm.models.coherent_mm_mpm(0.3), X, Y)
    found = plan.guarantees(None, X, Y)
    text = str(found)
    assert text.splitlines()[0].startswith("error, new samples") and "probability 0.95" in text
    assert "no probability statements about the true one" in text
    assert str(found[0]).startswith("error, new samples: ≤ 0.")
    page = found._repr_html_()
    assert "<table" in page and page.count("<tr") == len(found) + 1 and len(found[:2]) == 2


def margin_loss(t: np.ndarray, rho: float, p: float) -> np.ndarray:
    """Equations (5) and (6) of Sun (2024)."""
    return np.clip(1.0 - t / rho, 0.0, 1.0) ** p


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_the_margin_loss_lies_between_the_errors_and_the_p_hinge(p: float) -> None:
    t = np.linspace(-3.0, 3.0, 61)
    for rho in (0.3, 2.0):
        found = margin_loss(t, rho, p)
        assert np.all(found <= ucm.Hinge(p).each(t / rho) + 1e-14) and np.all(found >= (t <= 0))


def test_the_bound_of_the_psvm_is_above_1() -> None:
    """Equation (14) of Sun (2024), with one more feature of size r, whose weight is b / r."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2, 1.0, -1.0)
    A = rng.standard_normal((60, 3)) + y[:, None]
    plan = ucm.compile(ucm.models.psvm(1.5, 0.1), A, y)
    assert not plan.guarantees(None, level=0.9)  # it says nothing
    linear = plan.solve()
    r = np.linalg.norm(A, axis=1).max()
    longer, v = np.column_stack([A, np.full(60, r)]), np.append(linear.w, known(linear.b) / r)
    rho, R = 1.0 / np.linalg.norm(v), np.linalg.norm(longer, axis=1).max()
    rest = 6.0 * np.sqrt(R**2 / rho**2 / 60)
    rest += np.sqrt(np.log(np.log2(2 * R / rho)) / 60) + np.sqrt(np.log(20.0) / 120)
    assert rho < R and np.mean(margin_loss(y * (longer @ v) * rho, float(rho), 1.5)) + rest > 1.0


def test_the_rademacher_complexity_of_claim_1() -> None:
    """Sun (2024), by all signs: at a fixed b it is below the printed bound, and above it for a free one."""
    A = np.random.default_rng(0).standard_normal((10, 3))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=10)))
    bound = 2.0 * np.linalg.norm(A, axis=1).max() / np.sqrt(10)
    fixed = 2.0 * np.linalg.norm(signs @ A, axis=1).mean() / 10  # ||w|| <= 2
    assert fixed <= bound
    for free, below in ((0.0, True), (10.0, False)):  # |b| <= free
        assert (fixed + free * np.abs(signs.mean(axis=1)).mean() <= bound) == below


def by_sets(u: np.ndarray) -> float:
    """Equation (29) of Ito, Takeda and Toh (2015): `1 - sup k` over the k whose set of weights, a capped
    simplex, proves no negative mean margin; the cap changes at the k = i / m only."""
    m, best = u.size, None
    for i in range(m + 1):  # k = i / m and just below it
        k = i / m
        cap = 1.0 / m if i == 0 else 1.0 / (m - (np.ceil(m * k - 1e-9) - 1))
        worst = ucm.CappedSimplex(min(cap, 1.0)).support(-u)[0]
        if worst <= 1e-12:
            best = k
    return 1.0 if best is None else 1.0 - best


@pytest.mark.parametrize("seed", range(10))
def test_the_coherent_loss_by_its_sets_and_conditions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(12) + 0.2 * (seed - 3)
    found = coherent_loss(u)
    assert found == pytest.approx(by_sets(u))
    assert found >= np.mean(u < 0.0)
    assert found == coherent_loss(rng.permutation(u)) == coherent_loss(7.0 * u)
    assert coherent_loss(u + rng.random(12)) <= found
    assert coherent_loss(np.abs(u)) == 0.0 and coherent_loss(-np.abs(u)) == 1.0
    v = rng.standard_normal(12)  # quasi-convex
    assert coherent_loss(0.5 * (u + v)) <= max(found, coherent_loss(v))


@pytest.mark.parametrize("wrong", [[np.nan, 1.0], [[1.0, -2.0]], [np.inf], 3.0, ["a"], [[1.0], [1.0, 2.0]]])
def test_a_coherent_loss_is_of_a_vector(wrong: Any) -> None:
    with pytest.raises(ucm.DataError, match="coherent_loss: margins: expected a vector"):
        coherent_loss(wrong)


@pytest.mark.parametrize(
    "family",
    [
        3, lambda k: None, lambda k: ucm.CappedSimplex(0.1), lambda k: ucm.NormBall(1.0),
        lambda k: ucm.Box(-1.0, 1.0), lambda k: ucm.Ball(ucm.pos.mean, 1.0),
    ],
)  # fmt: skip
def test_the_domains_of_a_family_hold_distributions(family: Any) -> None:
    with pytest.raises(ucm.ParameterError, match="family: expected a function from k to domains of dist"):
        coherent_loss(np.array([1.0, -1.0, 3.0]), family)


def test_the_least_coherent_loss_is_that_of_a_nu_svm() -> None:
    """Proposition 4: no other classifier has a smaller one, as its level sets are those of the nu-SVM."""
    rng = np.random.default_rng(4)
    y = np.where(np.arange(30) < 15, 1.0, -1.0)
    A = rng.standard_normal((30, 2)) + 0.5 * y[:, None]
    end = ucm.admissible(ucm.models.nu_svm(0.5), A, y)["nu"].lower
    t = int(np.ceil(30 * end)) - 1
    sol = ucm.solve(ucm.models.nu_svm((t + 1) / 30), A, y, bias_rule="multipliers")
    least = coherent_loss(y * sol.decision(A))
    assert least == t / 30
    for _ in range(2000):
        w = rng.standard_normal(2)
        scores = A @ w
        for b in rng.uniform(-scores.max(), -scores.min(), 5):
            assert coherent_loss(y * (scores + b)) >= least


def test_coherent_losses_of_families_of_sets() -> None:
    """Lemma 4 with the sets of (29) and with balls; Proposition 3: no classifier has a smaller one than that
    at the k at which 0 enters."""
    rng = np.random.default_rng(4)
    y = np.where(np.arange(30) < 15, 1.0, -1.0)
    A = rng.standard_normal((30, 2)) + 0.5 * y[:, None]

    def caps(k: float) -> ucm.CappedSimplex:
        return ucm.CappedSimplex(1.0 / (30.0 - max(np.ceil(30.0 * k - 1e-9) - 1.0, 0.0)))

    def balls(k: float) -> Any:
        return ucm.KLBall(30.0**-k)

    for _ in range(10):
        u = rng.standard_normal(30) + rng.uniform(-0.5, 1.0)
        assert coherent_loss(u, caps) == pytest.approx(coherent_loss(u), abs=1e-8)
        v = rng.standard_normal(30) + 0.5
        found = coherent_loss(u, balls)
        assert found == pytest.approx(coherent_loss(3.0 * rng.permutation(u), balls), abs=1e-8)
        assert found >= coherent_loss(u + 0.1, balls)
        assert coherent_loss(u + v, balls) <= max(found, coherent_loss(v, balls)) + 1e-8
    alpha = ucm.admissible(ucm.models.kl_svm(0.9), A, y)["alpha"].lower
    sol = ucm.solve(ucm.models.kl_svm(alpha * 1.001), A, y, tol=1e-8)
    least = coherent_loss(y * sol.decision(A), balls)
    assert least == pytest.approx(1.0 + np.log(alpha) / np.log(30.0), abs=1e-3)
    for _ in range(100):
        scores = A @ rng.standard_normal(2)
        b = rng.uniform(-scores.max(), -scores.min())
        assert coherent_loss(y * (scores + b), balls) >= least - 1e-3


def test_where_nothing_is_promised() -> None:
    for model, word in (
        (ucm.Logistic() + ucm.L2(), "hold no set"),
        (ucm.Point(pos.mean) - neg.mean, "No promise"),
        (np.eye(2, 3) @ ucm.models.nu_svm(0.9), "another space"),
        ((np.eye(3) @ ucm.Hull(pos)) - neg.mean, "No promise"),
        (Ellipsoid(pos.mean, pos.cov + pos.cov, 0.1) - neg.mean, "No promise"),
    ):
        with np.errstate(all="ignore"):
            found = ucm.compile(model, X, Y).guarantees()
        assert len(found) == 0 and word in str(found)


@pytest.mark.parametrize(
    ("given", "error", "word"),
    [
        ((None, X, None), ucm.ParameterError, "together"),
        ((None, X[:, :2], Y), ucm.DataError, "3 features"),
        ((None, X, Y[:5]), ucm.DataError, "for each of 200 samples, got 5"),
        ((None, X, np.full(200, 2.0)), ucm.DataError, r"-1 or \+1"),
        ((None, X, ["a"] * 200), ucm.DataError, "labels -1 and"),
        ((3,), ucm.ParameterError, "solution is a Solution, got 3"),
    ],
)
def test_bad_input_is_refused(given: Any, error: type[Exception], word: str) -> None:
    plan = ucm.compile(ucm.models.mm_fda(0.2), X, Y)
    with pytest.raises(error, match=word):
        plan.guarantees(*given)
    for level in (1.0, "0.9"):
        with pytest.raises(ucm.ParameterError, match="level lies in"):
            plan.guarantees(level=level)  # type: ignore[arg-type]


def test_the_weight_of_a_class_makes_no_more_samples() -> None:
    U = ucm.ChiSquare(pos, rho=0.02) - ucm.ChiSquare(neg, rho=0.02)
    plain, heavy = (
        of(rows(U, class_weight=weights)[1], "true mean of minus the margin", 1)[0]
        for weights in (None, (10.0, 1.0))
    )
    assert heavy.probability == pytest.approx(plain.probability, rel=1e-12)
