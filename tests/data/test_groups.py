"""Groups of samples, `pos.group("A")`: their rows in hulls, means, covariances, folds, pairs and kernels."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from bundled import load
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from typed import untyped

import ucm
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.errors import CompositionError, DataError, EmptySetError, ParameterError

X, Y = load("breast_cancer")
X = (X - X.mean(axis=0)) / X.std(axis=0)
GROUPS = np.array(["A", "B", "C"])[np.random.default_rng(0).choice(3, len(Y), p=[0.6, 0.3, 0.1])]
NU = Param("nu", 0.05)
MIXED = (
    ucm.ReducedHull(pos.group("A"), nu=NU)
    - ucm.Ellipsoid(neg.group("B").mean, neg.group("B").cov, 0.3)
    - ucm.Hull(neg.group("C"), weights=ucm.NormBall(0.5))
)


def test_a_group_is_a_constant_matrix_of_its_samples() -> None:
    """The hull of rows written as numbers, and statistics by NumPy."""
    rows = X[(Y > 0) & (GROUPS == "C")]
    data = bind(X, Y, subgroup=GROUPS)
    U = ucm.Hull(pos.group("C"), weights=ucm.CappedSimplex(0.2))
    fixed = ucm.AffineImage(rows.T, ucm.CappedSimplex(0.2))
    rng = np.random.default_rng(1)
    for d in rng.standard_normal((5, X.shape[1])):
        assert U.support(data, d, {})[0] == pytest.approx(fixed.support(data, d, {})[0], rel=1e-12)
    assert np.allclose(pos.group("C").mean.evaluate(data), rows.mean(axis=0), atol=1e-14)
    assert np.allclose(pos.group("C").cov.evaluate(data), np.cov(rows.T, bias=True), atol=1e-13)
    both = (Y[:, None] * X)[GROUPS == "B"]
    assert np.allclose(signed.group("B").mean.evaluate(data), both.mean(axis=0), atol=1e-14)


def test_nu_counts_all_samples_and_the_weights_lie_in_the_group() -> None:
    plan = ucm.compile(MIXED, X, Y, subgroup=GROUPS)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    weights = solution.weights
    assert weights is not None
    assert weights[(Y > 0) & (GROUPS == "A")].sum() == pytest.approx(1.0)
    assert not weights[(Y > 0) & (GROUPS != "A")].any()
    assert weights[Y > 0].max() <= 2.0 / (len(Y) * 0.05) * (1.0 + 1e-9)
    rows, own = X[(Y > 0) & (GROUPS == "A")], X[(Y < 0) & (GROUPS == "B")]
    few = X[(Y < 0) & (GROUPS == "C")]
    p, q, u = cp.Variable(len(rows)), cp.Variable(len(few)), cp.Variable(X.shape[1])
    root = np.linalg.cholesky(np.cov(own.T, bias=True) + 1e-14 * np.eye(X.shape[1]))
    x = rows.T @ p - own.mean(axis=0) - root @ u - few.T @ q
    confined = [p >= 0, cp.sum(p) == 1, p <= 40 / len(Y), q >= 0, cp.sum(q) == 1]
    balls = [cp.norm(q) <= 0.5, cp.norm(u) <= 0.3]
    twin = cp.Problem(cp.Minimize(cp.norm(x)), [*confined, *balls])
    twin.solve(solver=cp.CLARABEL)
    assert -twin.value == pytest.approx(solution.objective, rel=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_groups_take_kernels(kernel: Any) -> None:
    rows = np.arange(0, len(Y), 4)
    part, y, groups = X[rows], Y[rows], GROUPS[rows]
    U = ucm.ReducedHull(pos.group("A"), nu=NU) - ucm.ReducedHull(neg.group("B"), nu=NU)
    given = part @ part.T if kernel == "precomputed" else part
    plan = ucm.compile(U, given, y, kernel=kernel, subgroup=groups)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    if kernel != "rbf":
        plain = ucm.solve(U, part, y, subgroup=groups)
        assert solution.objective == pytest.approx(plain.objective, rel=1e-6)
        assert solution.weights == pytest.approx(plain.weights, abs=1e-4)


def test_path_and_admissible_take_the_groups() -> None:
    U = ucm.ReducedHull(pos.group("A"), nu=NU) - ucm.ReducedHull(neg.group("B"), nu=NU)
    interval = ucm.admissible(U, X, Y, subgroup=GROUPS)["nu"]
    members = np.count_nonzero((Y > 0) & (GROUPS == "A"))
    others = np.count_nonzero((Y < 0) & (GROUPS == "B"))
    assert interval.upper == pytest.approx(2 * min(members, others) / len(Y), rel=1e-9)
    nus = [0.5 * (interval.lower + interval.upper), interval.upper]
    found = ucm.path(U, X, Y, nu=nus, subgroup=GROUPS)
    for nu, solution in zip(nus, found, strict=True):
        alone = ucm.solve(U.with_params(nu=nu), X, Y, subgroup=GROUPS)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-5)


def test_every_fold_has_its_own_rows() -> None:
    """Through cross-validation, search and a pipeline: the same as by hand, fold by fold."""
    folds = KFold(4, shuffle=True, random_state=0)
    by_hand = []
    for train, test in folds.split(X):
        fitted = ucm.Classifier(MIXED).fit(X[train], Y[train], subgroup=GROUPS[train])
        by_hand.append(fitted.score(X[test], Y[test]))
    with sklearn.config_context(enable_metadata_routing=True):
        clf = ucm.Classifier(MIXED).set_fit_request(subgroup=True)
        scores = cross_val_score(clf, X, Y, cv=folds, params={"subgroup": GROUPS})
        assert scores == pytest.approx(by_hand)
        piped = make_pipeline(StandardScaler(), clf)
        grid = {"classifier__model__nu": [0.05, 0.1]}
        search = GridSearchCV(piped, grid, cv=folds).fit(X, Y, subgroup=GROUPS)
        assert search.best_score_ > 0.8


def test_several_classes_and_calibration() -> None:
    y = np.where(X[:, 0] > 1.0, 2, Y)
    U = ucm.Ellipsoid(pos.group("A").mean, pos.group("A").cov, 0.1) - neg.group("B").mean
    clf = ucm.Classifier(U).fit(X, y, subgroup=GROUPS)
    assert clf.coef_.shape[0] == 3
    with sklearn.config_context(enable_metadata_routing=True):
        routed: Any = ucm.Classifier(U)
        inner = CalibratedClassifierCV(routed.set_fit_request(subgroup=True))
        P = inner.fit(X, y, subgroup=GROUPS).predict_proba(X)
    assert np.allclose(P.sum(axis=1), 1.0)
    rows = np.isin(y, [-1, 2])
    pair = ucm.solve(U, X[rows], np.where(y[rows] == -1, 1, -1), subgroup=GROUPS[rows])
    assert clf.solution_[1].objective == pytest.approx(pair.objective, rel=1e-6)


def test_prints_and_comes_back() -> None:
    U = ucm.Hull(pos.group("a_b")) - neg.group(2).mean
    assert repr(U) == "Hull(pos.group('a_b')) - Point(neg.group(2).mean)"
    assert eval(repr(U), {name: getattr(ucm, name) for name in ucm.__all__}) == U
    assert ucm.from_json(ucm.to_json(U)) == U == pickle.loads(pickle.dumps(U))
    assert r"\mathrm{a\_b}" in U._repr_latex_() and "a_b" in str(U)
    assert pos.group("A") != pos.group("B") and untyped.pos.group(np.int64(2)) == pos.group(2)
    assert type(untyped.pos.group(np.int64(2)).label) is int


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "of another length": (GROUPS[:5], f"expected {len(Y)} labels"),
    "one for all": ("A", "expected one label per sample"),
    "missing": (np.where(GROUPS == "A", np.array(None), GROUPS), "got None"),
    "not a number": (np.where(GROUPS == "A", np.nan, 1.0), "got nan"),
    "hidden": (np.ma.masked_array(np.ones(len(Y)), GROUPS == "A"), "every sample"),
    "no labels": ([("A", 1)] * len(Y), "expected one label per sample"),
    "unknown": (np.where(GROUPS == "A", "D", GROUPS), "got 'A', which no sample has"),
    "of one class": (np.where((GROUPS == "A") & (Y > 0), "D", GROUPS), "of the other class"),
    "none": (None, "enable_metadata_routing"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_groups_are_refused_before_any_work(case: str) -> None:
    labels, text = BAD_LABELS[case]
    for refused in (
        lambda: ucm.compile(MIXED, X, Y, subgroup=labels),
        lambda: ucm.Classifier(MIXED).fit(X, Y, subgroup=labels),
        lambda: ucm.compile(MIXED, X, Y, subgroup=labels, kernel="rbf"),
    ):
        with pytest.raises(DataError, match=text):
            refused()


def test_bad_labels_in_the_language() -> None:
    for label in (None, ("A", "B"), ["A"], float("nan"), pos):
        with pytest.raises(CompositionError, match="group"):
            untyped.pos.group(label)
    with pytest.raises(CompositionError, match="one group"):
        pos.group("A").group("B")
    with pytest.raises(CompositionError, match=r"did you mean 2 \* Hull\(pos.group\('A'\)\)"):
        _ = 2 * pos.group("A")
    with pytest.raises(CompositionError, match="over all samples"):
        ucm.ReducedHull(signed.group("A"), nu=0.1)
    U = ucm.ReducedHull(pos.group("C"), nu=0.9) - ucm.Hull(neg)
    members = np.count_nonzero((Y > 0) & (GROUPS == "C"))
    with pytest.raises(EmptySetError, match=f"at most {2 * members / len(Y):.6g}"):
        ucm.compile(U, X, Y, subgroup=GROUPS)


# --- points of one's own --------------------------------------------------------------------------
def test_points_is_its_points() -> None:
    """The samples of a class as points: the same sets."""
    X, y = load("wine")
    points = ucm.Points(X[y > 0])
    for named, own in (
        (ucm.Hull(pos), ucm.Hull(points)),
        (ucm.ReducedHull(pos, nu=0.2), ucm.ReducedHull(points, nu=0.2)),
        (ucm.Ellipsoid(pos.mean, pos.cov, 0.5), ucm.Ellipsoid(points.mean, points.cov, 0.5)),
        (ucm.CVaR(pos, 0.3), ucm.CVaR(points, 0.3)),
    ):
        plan = ucm.compile(own - ucm.Hull(neg), X, y)
        expected = ucm.solve(named - ucm.Hull(neg), X, y).objective
        assert plan.solve().objective == pytest.approx(expected, rel=1e-6)
        assert plan.verify().agrees
    source = {"X": X, "y": y}
    exec(ucm.to_cvxpy_source(ucm.Hull(points) - neg.mean), source)
    assert source["objective"] == pytest.approx(ucm.solve(ucm.Hull(pos) - neg.mean, X, y).objective, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ucm.Points([1.0, 2.0]), "an array of points, one a row"),
        (lambda: ucm.Points("A"), "an array of points, one a row"),
        (lambda: ucm.Points(np.empty((0, 2))), "at least one point"),
        (lambda: ucm.Points([[1.0, np.nan]]), "finite"),
        (lambda: 2 * ucm.Points([[1.0]]), "did you mean"),
        (lambda: ucm.Hull(ucm.Points(np.eye(2))) - ucm.Point([1.0]), "of one dimension"),
        (lambda: ucm.compile(ucm.Hull(ucm.Points(np.eye(2))) - neg.mean, np.eye(2), [-1, 1], kernel="rbf"),
         "a kernel replaces these"),
        (lambda: ucm.compile(ucm.Hull(ucm.Points(np.eye(2))) - neg.mean, np.eye(2), [-1, 1],
                             kernel="precomputed"), "a kernel replaces these"),
    ],
)  # fmt: skip
def test_points_refuses_invalid_vectors(make: Any, words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        make()


def test_a_loss_of_a_group_asks_for_labels() -> None:
    with pytest.raises(ucm.CompositionError, match="as it is a loss of a class or a group"):
        ucm.Hinge(on=ucm.signed.group("A")).value(np.ones(3))


# --- every function that takes samples --------------------------------------------------------------
WEIGHTS = 1.0 + (np.arange(Y.size) % 3 == 0)
GROUPED = ucm.ReducedHull(pos.group("A"), nu=Param("nu", 0.4)) - ucm.ReducedHull(neg, nu=Param("nu", 0.4))


def takers() -> dict[str, Any]:
    """The functions that take samples, by a call on data and on the samples themselves."""
    shown: Any = ucm.plot
    d = np.ones(X.shape[1])
    two = X[:, :2]
    return {
        "compile": lambda **k: ucm.compile(GROUPED, X, Y, **k).solve().objective,
        "solve": lambda **k: ucm.solve(GROUPED, X, Y, **k).objective,
        "path": lambda **k: ucm.path(GROUPED, X, Y, nu=[0.4], **k)[0].objective,
        "admissible": lambda **k: ucm.admissible(GROUPED, X, Y, **k)["nu"].lower,
        "support": lambda **k: ucm.support(GROUPED, X, Y, d, **k).value,
        "worst_case": lambda **k: float(ucm.worst_case(GROUPED, X, Y, d, **k).value),  # type: ignore[arg-type]
        "WeightsDisplay": lambda **k: (
            shown.WeightsDisplay.from_model(GROUPED, X, Y, **k).weights[""][1].max()
        ),
        "PathDisplay": lambda **k: shown.PathDisplay.from_model(GROUPED, X, Y, nu=[0.4, 0.5], **k).objective[
            0
        ],
        "ConvergenceDisplay": lambda **k: shown.ConvergenceDisplay.from_model(
            GROUPED, X, Y, solvers=["apg"], **k
        ).runs["apg"][1][0],
        "LandscapeDisplay": lambda **k: (
            shown.LandscapeDisplay.from_model(GROUPED, two, Y, n_starts=0, **k) and 0.0
        ),
        "SetDisplay": lambda **k: shown.SetDisplay.from_model(GROUPED, two, Y, **k) and 0.0,
        "SetAnimation": lambda **k: (
            shown.SetAnimation.from_model(GROUPED, two, Y, nu=[0.4, 0.5], n_frames=2, **k) and 0.0
        ),
    }


@pytest.mark.parametrize("name", takers())
def test_every_function_takes_weights_and_groups(name: str) -> None:
    """Whole weights say what repeated samples say, and groups come along; another word is refused."""
    import matplotlib.pyplot as plt

    call = takers()[name]
    found = call(sample_weight=WEIGHTS, subgroup=GROUPS, class_weight=(2.0, 1.0))
    assert np.isfinite(found)
    with pytest.raises(DataError, match="group"):
        call(sample_weight=WEIGHTS)
    if name in ("compile", "solve", "path", "support", "worst_case"):
        reps = WEIGHTS.astype(int)
        heavy = ucm.compile(
            GROUPED,
            np.repeat(X, reps, axis=0),
            np.repeat(Y, reps),
            subgroup=np.repeat(GROUPS, reps),
        )
        of_support = ucm.support(
            GROUPED,
            np.repeat(X, reps, axis=0),
            np.repeat(Y, reps),
            -np.ones(X.shape[1]) if name == "worst_case" else np.ones(X.shape[1]),
            subgroup=np.repeat(GROUPS, reps),
        ).value
        same = of_support if name in ("support", "worst_case") else heavy.solve().objective
        assert call(sample_weight=WEIGHTS, subgroup=GROUPS) == pytest.approx(same, rel=1e-5)
    plt.close("all")


def test_compare_takes_weights_and_groups() -> None:
    named = {"groups": GROUPED, "linear": LinearSVC()}
    found = ucm.compare(
        named, X, Y, cv=3, sample_weight=WEIGHTS, subgroup=GROUPS, tune=True, n_values=2,
        progress=False,
    )  # fmt: skip
    assert all(not row["failures"] for row in found.rows() if "failures" in row)
    rows = {row["model"]: row["score"] for row in found.rows()}
    scores = []
    for train, test in StratifiedKFold(3).split(X, Y):
        fitted = LinearSVC().fit(X[train], Y[train], sample_weight=WEIGHTS[train])
        scores.append(fitted.score(X[test], Y[test], sample_weight=WEIGHTS[test]))
    assert rows["linear"] == pytest.approx(np.mean(scores), abs=1e-12)
    assert rows["groups"] > 0.5
    with pytest.raises(ParameterError, match="whose fit takes sample_weight"):
        ucm.compare([KNeighborsClassifier()], X, Y, sample_weight=WEIGHTS, progress=False)
