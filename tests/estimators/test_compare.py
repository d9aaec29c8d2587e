"""Models on the same folds: scores against scikit-learn's, choice inside the folds, the test, failures."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import ucm
from ucm import Ball, Param, models, neg, pos
from ucm.data.bound_data import bind
from ucm.estimators.compare import corrected_t_test
from ucm.ranges.relative_sizes import with_relative_sizes

RNG = np.random.default_rng(5)
Y = np.repeat([-1, 1], 30)
X = RNG.normal(size=(60, 3)) + 0.9 * Y[:, None] * np.array([1.0, 0.5, 0.0])


class Fails(ClassifierMixin, BaseEstimator):
    """Refuses to be fitted where the first sample is left out."""

    def fit(self, X: Any, y: Any) -> Fails:
        if X[0, 0] != globals()["X"][0, 0]:
            raise RuntimeError("the first sample\nis missing")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


@pytest.fixture(scope="module")
def mixed() -> ucm.Comparison:
    pipeline = make_pipeline(StandardScaler(), SVC())
    return ucm.compare([models.nu_svm(0.6), pipeline, Fails(), models.mm_fda(0.1)], X, Y)


def test_scores_equal_cross_validation(mixed: ucm.Comparison) -> None:
    by_name = {one.name: one for one in mixed}
    assert list(by_name)[-1] == "Fails"
    for name, estimator in {
        "nu_svm": ucm.Classifier(models.nu_svm(0.6)),
        "mm_fda": ucm.Classifier(models.mm_fda(0.1)),
        "StandardScaler + SVC": make_pipeline(StandardScaler(), SVC()),
    }.items():
        wanted = cross_val_score(estimator, X, Y, cv=5)
        one = by_name[name]
        np.testing.assert_array_equal(one.fold_scores, wanted)
        assert one.score == pytest.approx(wanted.mean())
        assert one.error == pytest.approx(stats.sem(wanted))
    assert by_name["nu_svm"].gap is not None and by_name["nu_svm"].gap <= 1e-6
    assert by_name["nu_svm"].chosen == ({"nu": 0.6},) * 5
    assert by_name["nu_svm"].features == 3.0
    assert by_name["StandardScaler + SVC"].gap is None
    scores = [one.score for one in mixed if one.score is not None]
    assert scores == sorted(scores, reverse=True)


def test_a_model_that_fails_on_a_fold_is_a_row_that_says_so(mixed: ucm.Comparison) -> None:
    failed = mixed[-1]
    assert failed.score is None and failed.error is None and failed.p_value is None
    assert list(failed.failures) == [0]
    assert failed.failures[0] == "RuntimeError: the first sample is missing"
    assert "failed on 1 of 5 folds, on fold 1 by RuntimeError" in failed.remark
    assert np.isnan(failed.fold_scores[0]) and np.isfinite(failed.fold_scores[1:]).all()
    assert "failed on 1 of 5" in str(mixed) and "failed on 1 of 5" in mixed._repr_html_()


def test_table_frame_and_html(mixed: ucm.Comparison) -> None:
    assert "±" in str(mixed) and "Nadeau and Bengio" in str(mixed)
    assert repr(mixed) == "Comparison(4 models, 5 folds, accuracy)"
    page = mixed._repr_html_()
    assert page.count("<tr") == 5 and "np.float64" not in page
    pytest.importorskip("pandas", reason="pandas is part of ucm-classifiers[test]")
    frame = mixed.to_frame()
    assert list(frame["model"]) == [one.name for one in mixed]
    assert np.isnan(frame["score"].iloc[-1])


def test_the_corrected_t_test() -> None:
    """Against the definition: a ratio of 0 is the paired t test, and the correction widens it."""
    d = np.array([0.02, 0.05, 0.01, 0.04, 0.03])
    paired: Any = stats.ttest_1samp(d, 0.0)
    assert corrected_t_test(d, 0.0) == pytest.approx(paired.pvalue)
    t = d.mean() / np.sqrt((1 / 5 + 1 / 4) * d.var(ddof=1))
    assert corrected_t_test(d, 0.25) == pytest.approx(2 * stats.t.sf(t, 4))
    assert corrected_t_test(d[:1], 0.25) is None
    assert corrected_t_test(np.zeros(3), 0.5) == 1.0


@pytest.mark.parametrize("model", [models.nu_svm(0.5), models.one_norm_svm(1.0)])
def test_sizes_are_chosen_inside_the_folds(model: Any) -> None:
    """The choice has the best score of a grid search of the relative parameter."""
    (one,) = ucm.compare([model], X, Y, cv=2, tune=True, n_values=4)
    relative = with_relative_sizes(ucm.RobustMargin(model) if isinstance(model, ucm.extend.UncertaintySet)
                                   else model, bind(X, Y))  # fmt: skip
    (name,) = relative.relative_names()
    values = np.geomspace(1e-3, 1, 5)[:-1] if isinstance(model, ucm.Objective) else (np.arange(4) + 0.5) / 4
    for fold, (train, test) in enumerate(StratifiedKFold(2).split(X, Y)):
        search = GridSearchCV(ucm.Classifier(relative), {f"model__{name}": values}, cv=StratifiedKFold(5))
        search.fit(X[train], Y[train])
        fraction = one.fractions[fold][name]
        mean = search.cv_results_["mean_test_score"]
        assert mean[values == fraction] == pytest.approx(search.best_score_)
        clf = ucm.Classifier(relative.with_params(**{name: fraction})).fit(X[train], Y[train])
        assert one.chosen[fold] == pytest.approx(clf.solution_.params)
        assert one.fold_scores[fold] == clf.score(X[test], Y[test])


def test_which_sizes_are_made_relative() -> None:
    data = bind(X, Y)
    numbers = Ball(pos.mean, 0.3) - Ball(neg.mean, 0.2)
    found = with_relative_sizes(ucm.RobustMargin(numbers), data)
    assert found.params() == {"radius": 0.5, "radius_2": 0.5} == dict.fromkeys(found.relative_names(), 0.5)
    hulls = ucm.ReducedHull(pos, nu=0.5) - ucm.ReducedHull(neg, nu=0.5)
    assert with_relative_sizes(ucm.RobustMargin(hulls), data).relative_names() == ("nu",)
    assert with_relative_sizes(ucm.Hinge() + ucm.L1(), data).relative_names() == ("lam",)
    assert with_relative_sizes(models.svm(0.5), data).relative_names() == ()
    factors = Param("a", 1.0) * ucm.Hinge() + Param("b", 2.0) * ucm.Logistic() + ucm.L2()
    assert with_relative_sizes(factors, data).relative_names() == ()
    own = Ball(pos.mean, Param("r", 0.2, relative=True)) - Ball(neg.mean, Param("s", 0.1))
    assert with_relative_sizes(ucm.RobustMargin(own), data).relative_names() == ("r",)


def test_several_sizes_classes_and_jobs() -> None:
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    A = RNG.normal(size=(60, 2)) + 2.0 * np.c_[np.arange(60) % 3, np.arange(60) % 2]
    both = Ball(pos.mean, 0.1) - Ball(neg.mean, 0.2)
    found = ucm.compare(
        {"balls": both, "logistic": LogisticRegression()},
        A, y, cv=2, tune=True, n_values=2, n_jobs=2, scoring="balanced_accuracy",
    )  # fmt: skip
    assert found.scoring == "balanced_accuracy" and not any(one.failures for one in found)
    balls = next(one for one in found if one.name == "balls")
    assert set(balls.fractions[0]) == {"radius", "radius_2"}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"models": []}, ucm.ParameterError, "expected a list"),
        ({"models": models.nu_svm(0.3)}, ucm.ParameterError, "expected a list"),
        ({"models": [SVC]}, ucm.ParameterError, "expected a declared model"),
        ({"models": [ucm.Simplex()]}, ucm.CompositionError, "compare"),
        ({"y": Y[:-1]}, ucm.DataError, "one label for each"),
        ({"y": np.ones(60)}, ucm.DataError, "two classes"),
        pytest.param(
            {"y": np.where(Y > 0, np.inf, 0.0)},
            ucm.DataError,
            "infinity",
            marks=pytest.mark.filterwarnings("ignore:invalid value encountered in cast"),  # of scikit-learn
        ),
        ({"cv": 1}, ucm.ParameterError, "cv is a number of folds"),
        ({"scoring": "colour"}, ucm.ParameterError, "scoring='colour' is no score of Fails"),
        ({"scoring": ["accuracy"]}, ucm.ParameterError, "scoring"),
        ({"tune": "grid"}, ucm.ParameterError, "tune is True or False"),
        ({"n_values": 0}, ucm.ParameterError, "positive whole number"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {"models": [Fails()], "X": X, "y": Y, **change}
    with pytest.raises(error, match=words):
        ucm.compare(given.pop("models"), given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize("tune", [False, True])
def test_metadata_is_routed(tune: bool) -> None:
    """Weights reach a step of a pipeline that requests them: copies of samples are its reference."""
    weights = np.tile([1.0, 2.0, 3.0], 20)
    folds = list(StratifiedKFold(2).split(X, Y))
    svm: Any = SVC(kernel="linear")
    model = models.svm(1.0)
    pipeline = make_pipeline(MinMaxScaler(), svm)
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(ucm.ParameterError, match="set_fit_request"):
            ucm.compare([pipeline], X, Y, cv=folds, sample_weight=weights, progress=False)
        svm.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        given = {"sample_weight": weights, "subgroup": np.tile(list("ab"), 30), "tune": tune, "n_values": 2}
        found = ucm.compare([pipeline, model], X, Y, cv=folds, **given, n_jobs=2, progress=False)
    assert [one.failures for one in found] == [{}, {}]
    routed = next(one for one in found if one.name == "MinMaxScaler + SVC")
    for k, (train, test) in enumerate(folds):
        copies = np.repeat(train, weights[train].astype(int))
        scaler = MinMaxScaler().fit(X[train])
        clf = SVC(kernel="linear").fit(scaler.transform(X[copies]), Y[copies])
        copies = np.repeat(test, weights[test].astype(int))
        assert routed.fold_scores[k] == pytest.approx(clf.score(scaler.transform(X[copies]), Y[copies]))


def test_a_comparison_is_drawn(mixed: ucm.Comparison) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is part of ucm-classifiers[plot]")
    matplotlib.use("Agg")
    ax = mixed.plot()
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [one.name for one in reversed(mixed) if not one.failures]
    at = ax.collections[0].get_offsets()[:, 0]
    assert at.tolist() == [one.score for one in reversed(mixed) if not one.failures]
    matplotlib.pyplot.close("all")


def test_an_end_of_the_tried_values_is_named() -> None:
    """Of both kinds of searches; fractions are printed as such."""
    grid = GridSearchCV(SVC(), {"C": [1e-6, 1e-5], "kernel": ["linear", "rbf"]}, cv=2)
    found = ucm.compare(
        {"grid": grid, "ours": models.one_norm_svm(1.0)}, X, Y, cv=2, tune=True, n_values=1, progress=False
    )
    by_name = {one.name: one for one in found}
    (end,) = by_name["grid"].edges
    assert end in ("the smallest C", "the largest C") and by_name["ours"].edges == {}
    assert f"grid: {end} that was tried is the best one on 2 of 2 folds; try " in str(found)
    assert by_name["ours"].fractions == ({"lam": 1e-3},) * 2
    assert "(at 0.001 of the way through its admissible interval)" in by_name["ours"].parameters


def test_a_quantity_that_no_model_declares_is_refused() -> None:
    with pytest.raises(ucm.ParameterError, match="that a model declares, got 'typo'; correct the name"):
        ucm.compare([models.svm(1.0)], X, Y, cv=2, per_sample={"typo": np.ones(Y.size)}, progress=False)


def test_a_time_limit_of_all_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second fit begins after the limit by the clock, and the first one has what is left."""
    times, limits = iter([0.0, 1.0, 9.0]), []
    monkeypatch.setattr("ucm.estimators.compare.time.perf_counter", lambda: next(times, 9.0))

    class Limited(ucm.Classifier):
        def fit(self, X: Any, y: Any = None, *args: Any, **more: Any) -> Any:
            limits.append(self.time_limit)
            return super().fit(X, y)

    cv, given = [(np.arange(0, 60, 2), np.arange(1, 60, 2))], {"in time": Limited(), "late": SVC()}
    first, second = ucm.compare(given, X, Y, cv=cv, time_limit=5.0, progress=False)
    assert limits == [4.0] and first.name == "in time" and first.score is not None
    assert "the time limit of 5 s ended before this fit" in second.remark
    with pytest.raises(ucm.ParameterError, match="time_limit"):
        ucm.compare([SVC()], X, Y, time_limit=-1.0)


def test_tuning_goes_beyond_the_present_factor_and_into_pipelines() -> None:
    """A pipeline is tuned as by a grid search over it; C is a number, and is not stopped at 2."""
    flipped = np.where(np.arange(Y.size) % 9 == 0, Y[::-1], Y)
    raw = X * np.array([1.0, 1e5] + [1.0] * (X.shape[1] - 2))
    plain = make_pipeline(StandardScaler(), ucm.Classifier(tol=1e-8))
    rbf = make_pipeline(StandardScaler(), ucm.Classifier(kernel="rbf", tol=1e-8))
    found = ucm.compare([plain, rbf], raw, flipped, cv=2, tune=True, n_values=3, progress=False)
    values = {"classifier__model__C": 0.1 * np.geomspace(1e-3, 1e3, 3)}
    for one in found:
        assert not one.failures and one.fractions == ({}, {})
        assert ("gamma" in one.chosen[0]) == ("rbf" in str(one.name) or "gamma" in one.parameters)
    linear = next(one for one in found if "gamma" not in one.parameters)
    for fold, (train, _) in enumerate(StratifiedKFold(2).split(raw, flipped)):
        grid = GridSearchCV(plain, values, cv=StratifiedKFold(3)).fit(raw[train], flipped[train])
        index = list(values["classifier__model__C"]).index(pytest.approx(linear.chosen[fold]["C"]))
        assert grid.cv_results_["mean_test_score"][index] == pytest.approx(grid.best_score_)


def test_progress_outside_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    ucm.compare([models.mm_fda(0.1)], X, Y, cv=2)
    assert capsys.readouterr().err.startswith("compare: mm_fda: finished after ")
    ucm.compare([models.mm_fda(0.1)], X, Y, cv=2, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("model", "warned"),
    [
        (models.mm_fda(0.1), 1),
        (ucm.ClassifierCV(models.mm_fda(0.1), param_range=[0.1]), 1),
        (make_pipeline(StandardScaler(), ucm.Classifier(models.mm_fda(0.1))), 0),
        (SVC(), 0),
    ],
)
def test_features_of_different_scale_are_said_once_for_all_folds(model: Any, warned: int) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ucm.compare([model], X * np.array([1.0, 30.0, 3e5]), Y, cv=3, progress=False)
    assert [str(w.message).startswith("compare: ranges of features") for w in found] == [True] * warned


def test_the_default_has_its_own_name() -> None:
    models = [ucm.Classifier(), ucm.models.mm_fda(0.1), ucm.models.psvm(1.3, 2.0)]
    found = ucm.compare(models, X, Y, cv=2, progress=False)
    assert {row["model"] for row in found.rows()} == {"psvm", "mm_fda", "psvm (2)"}


def test_models_over_files_are_fitted_to_the_folds_of_the_rows(tmp_path: Path) -> None:
    """Against fits in memory to the same folds."""
    pytest.importorskip("pyarrow")
    X, y = ucm.datasets.load("breast_cancer")
    table = np.column_stack([X, y])
    np.savetxt(
        tmp_path / "all.csv",
        table,
        delimiter=",",
        header=",".join(f"f{k}" for k in range(31)),
        comments="",
    )
    rows = ucm.open_rows(tmp_path / "all.csv", "f30")
    nu = ucm.ClassifierCV(ucm.models.nu_svm(0.3), param_range=[0.2, 0.4], cv=2)
    named = {"svm": ucm.Hinge() + 0.5 * ucm.L2(), "nu": nu}
    found = ucm.compare(named, tmp_path / "all.csv", "f30", cv=3, progress=False)
    assert {one.name for one in found} == {"svm", "nu"} and not found[0].failures
    assert all(one.gap is not None and one.gap <= 1e-6 for one in found)
    again = ucm.compare(named, rows, cv=3, progress=False)
    for one, other in zip(found, again, strict=True):
        assert np.array_equal(one.fold_scores, other.fold_scores)
    svm = next(one for one in found if one.name == "svm")
    for k, (train, test) in enumerate(rows.split(3)):
        (A, t), (B, u) = train.gather(), test.gather()
        score = ucm.Classifier(named["svm"]).fit(A, t).score(B, u)
        assert svm.fold_scores[k] == pytest.approx(score, abs=1.0 / u.size)
    for options, words in (
        ({"models": [LogisticRegression()]}, "declared models"),
        ({"tune": True}, "param_range"),
        ({"cv": 1}, "cv is a whole number from 2 on"),
        ({"scoring": "roc_auc"}, "accuracy"),
    ):
        with pytest.raises(ucm.UCMError, match=words):
            ucm.compare(**{"models": named, "X": rows, **options})


def test_a_search_of_another_estimator_fails_in_its_row() -> None:
    """An estimator that `fit` refuses has a reason in its row, and the others have their scores."""
    no_intercept = ucm.Classifier(models.nu_svm(0.3), fit_intercept=False)  # a set has no intercept
    searched = {"search": ucm.ClassifierCV(SVC()), "set": no_intercept, "default": ucm.Classifier()}
    default, *failed = ucm.compare(searched, X, Y, cv=2, progress=False)
    assert default.name == "default" and not default.failures
    assert {one.name: sorted(one.failures) for one in failed} == {"search": [0, 1], "set": [0, 1]}
    assert "got a SVC" in failed[0].failures[0] or "got a SVC" in failed[1].failures[0]
