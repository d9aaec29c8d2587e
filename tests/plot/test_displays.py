"""Pictures by numbers and artists: outlines against exact sets, names inside of the axes, refusals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ucm
from ucm import (
    AffineImage,
    Ball,
    Box,
    Ellipsoid,
    Hull,
    NormBall,
    Param,
    ReducedHull,
    RobustMargin,
    models,
    neg,
    pos,
    signed,
)
from ucm.data.bound_data import bind

mpl = pytest.importorskip("matplotlib", reason="matplotlib is not here: pip install 'ucm-classifiers[plot]'")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_rgb, to_rgba  # noqa: E402

from ucm.plot.outline import Frame, Outline, Projection, outline, projection_outline  # noqa: E402
from ucm.plot.style import luminance  # noqa: E402

plot: Any = ucm.plot
SetDisplay, PathDisplay = plot.SetDisplay, plot.PathDisplay

# --- data ------------------------------------------------------------------------------------------
_rng = np.random.default_rng(3)
X = np.vstack([
    _rng.normal(size=(30, 2)) @ [[0.8, 0.5], [0.0, 0.3]] + [1.5, 1.0],
    _rng.normal(size=(30, 2)) @ [[0.4, 0.0], [-0.1, 0.9]] + [-1.0, -0.2],
])  # fmt: skip
Y = np.repeat([1.0, -1.0], 30)
CLOSE = X - 0.85 * np.where(Y[:, None] > 0, X[:30].mean(0), X[30:].mean(0))  # 0 in U of most models
ANGLES = np.linspace(0.0, 2.0 * np.pi, 3601)
AROUND = np.c_[np.cos(ANGLES), np.sin(ANGLES)]


def heights(shape: Outline) -> np.ndarray:
    """The support function of an outline."""
    return (AROUND @ shape.vertices.T).max(axis=1)


def polygon(V: Any) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    V = np.asarray(V, dtype=float)
    return lambda e: (float((V @ e).max()), V[int((V @ e).argmax())])


# --- outlines --------------------------------------------------------------------------------------
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 13, 40])
@pytest.mark.parametrize("stretch", [1.0, 30.0])
def test_a_polygon_is_found_exactly(k: int, stretch: float) -> None:
    t = 2.0 * np.pi * np.arange(k) / k + 0.2
    V = np.c_[np.cos(t), stretch * np.sin(t)] + [5.0, -2.0]
    asked = []

    def support(e: np.ndarray) -> tuple[float, np.ndarray]:
        asked.append(e)
        return polygon(V)(e)

    found = outline(support, rtol=0.0)
    assert found is not None
    assert found.evaluations == len(asked) <= 2 * k + 3
    assert found.error <= 1e-7 * max(found.size, 1e-12)
    assert np.abs(heights(found) - (AROUND @ V.T).max(axis=1)).max() <= 1e-9 * (1.0 + stretch)
    assert len(found.vertices) == k


@pytest.mark.parametrize("axes", [(1.0, 1.0), (1.0, 7.0), (1.0, 200.0), (3e-5, 1e-5), (4e6, 1e6)])
def test_an_ellipse_is_within_the_bound(axes: tuple[float, float]) -> None:
    S = np.square(axes)

    def support(e: np.ndarray) -> tuple[float, np.ndarray]:
        h = float(np.sqrt(S @ e**2))
        return h, S * e / h

    found = outline(support)
    assert found is not None
    off = np.abs(heights(found) - np.sqrt(AROUND**2 @ S)).max()
    assert off <= found.error * (1.0 + 1e-6) <= 2e-3 * found.size * (1.0 + 1e-6)
    assert found.evaluations <= 60
    assert found.size == pytest.approx(2.0 * max(axes), rel=1e-2)


def test_a_sum_of_a_polygon_and_a_disc() -> None:
    square, r = polygon([[0, 0], [3, 0], [3, 1], [0, 1]]), 0.4

    def support(e: np.ndarray) -> tuple[float, np.ndarray]:
        h, z = square(e)
        return h + r, z + r * e

    found = outline(support)
    assert found is not None
    exact = np.array([square(e)[0] + r for e in AROUND])
    assert np.abs(heights(found) - exact).max() <= found.error <= 2e-3 * found.size


def test_outlines_run_counter_clockwise_and_are_convex() -> None:
    found = outline(Projection(models.nu_svm(0.3), bind(X, Y), np.eye(2)))
    assert found is not None
    a, b = np.diff(found.closed, axis=0), np.diff(np.roll(found.closed[:-1], -1, axis=0), axis=0)
    turn = a[:-1, 0] * b[:, 1] - a[:-1, 1] * b[:, 0]
    assert turn.min() >= -1e-9 * found.size**2


PLANAR = [
    models.nu_svm(0.3), models.mm_mpm(0.8), models.mm_fda(0.5), models.l2_nu_svm(0.3), models.kl_svm(0.5),
    models.nu_svm(0.3) + Ball(0, 0.5), 2 * Hull(pos), np.array([[1.0, 2.0], [0.0, 1.0]]) @ models.nu_svm(0.4),
]  # fmt: skip


@pytest.mark.parametrize("U", PLANAR, ids=repr)
def test_a_declared_set_of_the_plane(U: Any) -> None:
    data = bind(X, Y)
    projection = Projection(U, data, np.eye(2))
    found = outline(projection)
    assert found is not None
    assert projection.evaluations == found.evaluations <= 60
    exact = np.array([U.support(data, e, {})[0] for e in AROUND[::10]])
    off = np.abs(heights(found)[::10] - exact).max()
    assert off <= found.error + 1e-7 * found.size
    assert found.error <= 2e-3 * found.size


def test_a_projection_of_a_set_of_thirty_features() -> None:
    A, t = ucm.datasets.load("breast_cancer")
    data = bind(A, t)
    P = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 2)))[0].T
    for U in (models.nu_svm(0.3), models.mm_mpm(0.5), models.kl_svm(0.5)):
        found = outline(Projection(U, data, P))
        assert found is not None
        exact = np.array([U.support(data, P.T @ e, {})[0] for e in AROUND[::30]])
        assert np.abs(heights(found)[::30] - exact).max() <= found.error + 1e-7 * found.size
        assert found.error <= 2e-3 * found.size
        assert found.evaluations <= 80


def test_an_intersection_of_three_discs() -> None:
    discs = [(np.array([0.0, 0.0]), 1.0), (np.array([1.0, 0.0]), 1.2), (np.array([0.4, 0.9]), 0.9)]
    U = Ball(discs[0][0], 1.0) & Ball(discs[1][0], 1.2) & Ball(discs[2][0], 0.9)
    found = outline(Projection(U, bind(X, Y), np.eye(2)))
    assert found is not None
    assert found.evaluations <= 200
    assert found.error <= 2e-3 * found.size
    for c, r in discs:  # the outline is no further out of a disc than its error
        assert np.hypot(*(found.vertices - c).T).max() <= r + found.error * 1.01 + 1e-6
    side = np.linspace(-1.0, 2.0, 601)
    grid = np.array([(a, b) for a in side for b in side])
    grid = grid[np.all([np.hypot(*(grid - c).T) <= r for c, r in discs], axis=0)]
    assert ((grid @ AROUND.T).max(axis=0) <= heights(found) + found.error + 1e-6).all()


def test_an_unbounded_set_is_cut_at_the_frame_and_marked() -> None:
    strip = Hull(pos) - Hull(neg) + AffineImage([[1.0], [0.0]], Box(0, np.inf))
    data = bind(X, Y)
    assert outline(Projection(strip, data, np.eye(2))) is None
    frame = Frame(np.zeros(2), 5.0)
    found = projection_outline(Projection(strip, data, np.eye(2)), frame)
    assert found.frame is frame
    assert found.vertices.max() <= 5.0 + 1e-6
    assert found.vertices[:, 0].max() == pytest.approx(5.0)
    assert np.isnan(found.rim).any()
    whole = outline(Projection(Hull(pos) - Hull(neg), data, np.eye(2)))
    assert whole is not None
    assert found.vertices[:, 1].max() == pytest.approx(whole.vertices[:, 1].max(), abs=0.02)
    shown = SetDisplay.from_model(strip, X, Y)
    assert "unbounded" in words(shown.axes_[1])
    reach = shown.outline.vertices[:, 0].max()
    assert reach > shown.axes_[1].get_xlim()[1]  # the cut is outside of the picture


# --- artists ---------------------------------------------------------------------------------------
def words(ax: Any) -> str:
    legend = ax.get_legend()
    named = [] if legend is None else [*legend.get_texts(), legend.get_title()]
    return "\n".join(t.get_text() for t in [*ax.texts, *named])


def by_id(ax: Any, gid: str) -> Any:
    return next(line for line in ax.lines if line.get_gid() == gid)


def test_legends_name_the_classes_by_their_labels() -> None:
    named = np.where(Y > 0, "malignant", "benign")
    shown = SetDisplay.from_model(models.nu_svm(0.35), X, named, pos_label="malignant", panels="classes")
    assert shown.class_names == {1: "malignant", -1: "benign"}
    assert {"malignant", "benign"} <= {text.get_text() for text in shown.axes_[0].get_legend().get_texts()}
    clf = ucm.Classifier(models.nu_svm(0.35), pos_label="benign").fit(X, named)
    shown = SetDisplay.from_estimator(clf, X, named, panels="classes")
    assert shown.class_names == {1: "benign", -1: "malignant"}
    turned = SetDisplay.from_model(models.nu_svm(0.35), X, Y, pos_label=-1, panels="classes")
    assert turned.class_names == {1: "class -1", -1: "class +1"}
    numbered = plot.WeightsDisplay.from_model(models.nu_svm(0.35), X, np.where(Y > 0, 7, 3))
    texts = [text.get_text() for text in numbered.axes_[0].get_legend().get_texts()]
    assert [text.split(":")[0] for text in texts] == ["class 7", "class 3"]


MODELS = [
    models.nu_svm(0.35), models.mm_mpm(0.9), models.mm_fda(0.6), models.l2_nu_svm(0.25), models.kl_svm(0.6),
    models.coherent_mm_mpm(1.2), models.coherent_mm_fda(0.9), models.biased_l2_nu_svm(0.4, 0.3),
]  # fmt: skip


@pytest.mark.parametrize("U", MODELS, ids=repr)
def test_the_picture_of_a_model(U: Any) -> None:
    solution = ucm.solve(U, X, Y)
    shown = SetDisplay.from_model(U, X, Y, solution=solution)
    left, right = shown.axes_
    assert shown.figure_ is left.figure
    np.testing.assert_allclose(shown.nearest, solution.x)
    line = by_id(left, "hyperplane").get_xydata()
    np.testing.assert_allclose(line @ solution.w + solution.b, 0.0, atol=1e-9)
    level = by_id(right, "support").get_xydata() @ solution.w
    np.testing.assert_allclose(level, -solution.objective, rtol=1e-4)
    np.testing.assert_allclose(by_id(right, "origin").get_xydata(), [[0.0, 0.0]])
    # U lies beyond the supporting line, which touches it
    reach = float((shown.outline.vertices @ solution.w).min())
    assert reach == pytest.approx(-solution.objective, abs=2.0 * shown.outline.error)
    if shown.extremes:
        factor = 0.5 if shown.joint else 1.0
        apart_ = factor * (shown.extremes[1] - shown.extremes[-1])
        np.testing.assert_allclose(apart_, solution.x, atol=1e-4)
        for sign, shape in shown.classes.items():
            out = AROUND @ shown.extremes[sign] - heights(shape)
            assert out.max() <= shape.error + 1e-4
    assert r"$x^*$" in words(right) and "$U$" in words(right) and "class +1" in words(left)


def test_marks_grow_with_the_weight_of_the_worst_case() -> None:
    shown = SetDisplay.from_model(models.l2_nu_svm(0.25), X, Y)
    q = shown.solution.weights
    for sign, dots in zip((1, -1), shown.axes_[0].collections):
        sizes, own = dots.get_sizes(), q[sign == Y]
        order = np.argsort(own)
        assert (np.diff(sizes[order]) >= -1e-9).all()
        assert sizes[own.argmax()] > 2.0 * sizes[own.argmin()]


def test_intersections_show_their_operands() -> None:
    shown = SetDisplay.from_model(models.coherent_mm_mpm(1.2), X, Y)
    assert [len(shown.parts[k]) for k in (1, -1, 0)] == [2, 2, 0]
    for sign in (1, -1):
        for part in shown.parts[sign]:
            slack = part.error + shown.classes[sign].error + 1e-5
            assert (heights(shown.classes[sign]) <= heights(part) + slack).all()


def test_zero_in_the_set() -> None:
    U = models.nu_svm(0.1)
    shown = SetDisplay.from_model(U, CLOSE, Y)
    assert shown.zero_inside
    assert "not convex" in shown.axes_[1].get_title("left")
    ends = by_id(shown.axes_[1], "support").get_xydata()
    least = float((shown.outline.vertices @ shown.solution.w).min())
    np.testing.assert_allclose(ends @ shown.solution.w, least, atol=1e-9)
    assert least == pytest.approx(-shown.solution.objective, abs=2.0 * shown.outline.error)


def test_other_norms_show_their_ball() -> None:
    for p in (1.0, 1.5, np.inf):
        shown = SetDisplay.from_model(RobustMargin(models.nu_svm(0.35), p), X, Y, panels="set")
        q = 1.0 if p == np.inf else np.inf if p == 1.0 else p / (p - 1.0)
        dist = -shown.solution.objective
        balls = [
            line
            for line in shown.ax_.lines
            if len(line.get_xdata()) > 100 and np.allclose(np.linalg.norm(line.get_xydata(), q, axis=1), dist)
        ]
        assert len(balls) == 1


def test_the_plane_of_the_normal() -> None:
    A, t = ucm.datasets.load("breast_cancer")
    shown = SetDisplay.from_model(models.mm_mpm(0.5), A, t, plane="normal")
    dist = -shown.solution.objective
    np.testing.assert_allclose(shown.nearest, [dist, 0.0], atol=1e-6 * dist)
    np.testing.assert_allclose(shown.normal, [1.0, 0.0], atol=1e-9)
    assert shown.outline.vertices[:, 0].min() == pytest.approx(dist, abs=2.0 * shown.outline.error)
    Z = A - A.mean(0)
    w = shown.solution.w
    Z = Z - np.outer(Z @ w, w)
    widest = np.linalg.svd(Z, full_matrices=False)[2][0]
    np.testing.assert_allclose(np.abs(np.corrcoef(Z @ widest, shown.points[:, 1])[0, 1]), 1.0, atol=1e-3)
    assert "of the remaining variance" in shown.labels[1]


def test_a_plane_that_w_leaves_shows_no_line() -> None:
    A, t = ucm.datasets.load("breast_cancer")
    shown = SetDisplay.from_model(
        models.nu_svm(0.3), A, t, plane=[np.eye(30)[3], np.eye(30)[3] + np.eye(30)[7]]
    )
    np.testing.assert_allclose(shown.points, A[:, [3, 7]], atol=1e-12)  # made orthonormal
    assert shown.labels == ("$x_{4}$", "$x_{8}$")
    assert not any(line.get_gid() in ("hyperplane", "support") for ax in shown.axes_ for line in ax.lines)
    assert "no line" in words(shown.axes_[0])
    assert "projection" in words(shown.axes_[1])


def test_images_under_a_matrix() -> None:
    M = np.array([[1.0, 0.5], [0.0, 1.0]])
    shown = SetDisplay.from_model(M @ models.nu_svm(0.35), X, Y)
    line = by_id(shown.axes_[0], "hyperplane").get_xydata()
    np.testing.assert_allclose(line @ M.T @ shown.solution.w + shown.offset, 0.0, atol=1e-9)
    flat = SetDisplay.from_model([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]] @ Hull(pos) + Ball([4.0, 4.0], 1.0),
                                 np.c_[X, X[:, :1]], Y)  # fmt: skip
    assert len(flat.axes_) == 1
    with pytest.raises(ucm.ParameterError, match="another space"):
        flat.plot(panels="classes")


def test_estimators_and_names_of_features() -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=["height", "weight"])
    labels = np.where(Y > 0, "yes", "no")
    clf = ucm.Classifier(models.nu_svm(0.35)).fit(frame, labels)
    shown = SetDisplay.from_estimator(clf, frame, labels)
    assert shown.labels == ("height", "weight")
    np.testing.assert_allclose(shown.normal, clf.coef_[0])
    other = SetDisplay.from_model(models.nu_svm(0.35), X, Y)
    np.testing.assert_allclose(shown.outline.vertices, other.outline.vertices)
    turned = ucm.Classifier(models.nu_svm(0.35), pos_label="no").fit(frame, labels)
    mirrored = SetDisplay.from_estimator(turned, frame, labels)
    np.testing.assert_allclose(mirrored.normal, -turned.coef_[0])
    np.testing.assert_allclose(mirrored.classes[1].size, shown.classes[-1].size, rtol=1e-6)
    weighted = ucm.Classifier(models.nu_svm(0.35), class_weight={"yes": 2.0, "no": 1.0}).fit(frame, labels)
    more = SetDisplay.from_estimator(weighted, frame, labels)
    assert more.classes[1].size > 1.05 * shown.classes[1].size
    with pytest.raises(ucm.ParameterError, match="not fitted"):
        SetDisplay.from_estimator(ucm.Classifier(models.nu_svm(0.3)), X, Y)
    three = ucm.Classifier(models.nu_svm(0.3)).fit(X, np.arange(60) % 3)
    with pytest.raises(ucm.DataError, match="3 classes"):
        SetDisplay.from_estimator(three, X, np.arange(60) % 3)
    kernel = ucm.Classifier(models.nu_svm(0.5), kernel="rbf").fit(X, Y)
    with pytest.raises(ucm.ParameterError, match="kernel"):
        SetDisplay.from_estimator(kernel, X, Y)


def test_pipelines_and_searches_are_drawn_over_the_samples_of_their_classifier() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(X)
    expected = SetDisplay.from_model(models.nu_svm(0.35), scaled, Y)
    classifier = ucm.Classifier(models.nu_svm(0.5))
    search = ucm.ClassifierCV(classifier, param_range=[0.35], cv=2)
    for last in (ucm.Classifier(models.nu_svm(0.35)), search):
        shown = SetDisplay.from_estimator(make_pipeline(StandardScaler(), last).fit(X, Y), X, Y)
        np.testing.assert_allclose(shown.outline.vertices, expected.outline.vertices, atol=1e-6)


def test_given_axes_are_drawn_into() -> None:
    shown = SetDisplay.from_model(models.nu_svm(0.35), X, Y)
    figure, ax = plt.subplots()
    again = shown.plot(ax, panels="classes")
    assert again is shown and shown.ax_ is ax and shown.figure_ is figure
    assert by_id(ax, "hyperplane") is not None
    halves: Any = plt.figure().subfigures(1, 2)
    part = halves[1].subplots()
    assert shown.plot(part, panels="set").ax_ is part
    with pytest.raises(ucm.ParameterError, match="2 axes"):
        shown.plot(ax)
    with pytest.raises(ucm.ParameterError, match="panels"):
        shown.plot(panels="both sides")


def test_many_samples_are_thinned_and_the_picture_says_so() -> None:
    rng = np.random.default_rng(0)
    t = np.where(rng.random(100_000) < 0.5, 1.0, -1.0)
    A = rng.normal(size=(100_000, 2)) + 1.5 * t[:, None]
    shown = SetDisplay.from_model(models.mm_mpm(0.5), A, t, panels="classes")
    assert len(shown.points) == 4000
    assert "4,000 of 100,000 samples" in words(shown.ax_)
    kept = plot.SetDisplay.from_model(models.nu_svm(0.9), A[:9000], t[:9000], panels="classes")
    heavy = np.sort(kept.solution.weights)[::-1]
    assert np.sort(kept.weights)[::-1][:500] == pytest.approx(heavy[:500])


# --- refusals --------------------------------------------------------------------------------------
THIRTY = ucm.datasets.load("breast_cancer")
NU, Parameter = models.nu_svm(0.3), ucm.ParameterError
draw, follow, curves = (
    SetDisplay.from_model,
    PathDisplay.from_model,
    plot.ConvergenceDisplay.from_solution,
)
BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: draw(NU, *THIRTY), Parameter, "30 features"),
    (lambda: draw(NU, *THIRTY, plane=np.ones((2, 30))), Parameter, "line"),
    (lambda: draw(NU, *THIRTY, plane=np.ones((2, 3))), Parameter, r"\(2, 30\)"),
    (lambda: draw(NU, *THIRTY, plane="oblique"), Parameter, "oblique"),
    (lambda: draw(NU, *THIRTY, plane=np.full((2, 30), np.nan)), Parameter, "finite"),
    (lambda: draw(NU, X[:, :1], Y), Parameter, "1 feature"),
    (lambda: draw(ReducedHull(pos, eta=0.01) - Hull(neg), X, Y), ucm.EmptySetError, "the cap"),
    (lambda: draw((Ball([9.0, 9.0], 0.1) & Hull(pos)) - Hull(neg), X, Y), ucm.EmptySetError, "empty"),
    (lambda: draw(NU, X, np.arange(60) % 3), ucm.DataError, "3 labels"),
    (lambda: draw(NU, X, Y, solution=ucm.solve(NU, X[1:], Y[1:])), Parameter, "other samples"),
    (lambda: draw(NU, X, Y, solution=ucm.solve(NU, *THIRTY)), Parameter, "R.30"),
    (lambda: draw(models.svm(0.1), X, Y), ucm.CompositionError, "loss"),
    (lambda: draw(NU, X, Y[:-1]), ucm.DataError, "length"),
    (lambda: plot.WeightsDisplay.from_model(models.mm_mpm(0.5), X, Y), ucm.CompositionError, "samples"),
    (lambda: plot.WeightsDisplay.from_model({}, X, Y), Parameter, "name"),
    (lambda: follow(models.svm(0.1), X, Y), Parameter, "values"),
    (lambda: follow(NU, X, Y, kappa=[0.1]), Parameter, "kappa"),
    (lambda: follow(NU, X, Y, nu=["a"]), Parameter, "numbers|number"),
    (lambda: follow(NU, X, Y, nu=[0.3], panels=["b"]), Parameter, "panels"),
    (lambda: curves({}), Parameter, "Solution"),
    (lambda: curves(ucm.solve(NU, X, Y), x="miles"), Parameter, "miles"),
    (lambda: plot.ConvergenceDisplay.from_model(NU, X, Y, solvers="apg"), Parameter, "several"),
    (lambda: plot.LandscapeDisplay.from_model(NU, *THIRTY), Parameter, "two features"),
    (lambda: plot.LandscapeDisplay.from_model(NU, X, Y, n_starts=10**30), Parameter, "0 to 10000"),
    (lambda: plot.LandscapeDisplay.from_model(NU, X[:, [0, 0]], Y), Parameter, "flat"),
    (lambda: plot.SetAnimation.from_model(models.biased_l2_nu_svm(0.3, 0.4), X, Y), Parameter,
     "one parameter"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_input_is_refused_before_anything_is_drawn(case: int) -> None:
    act, error, what = BAD[case]
    with pytest.raises(error, match=what):
        act()
    assert not plt.get_fignums()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ucm.MissingExtraError, match=r"pip install 'ucm-classifiers\[plot\]'") as caught:
        SetDisplay.from_model(models.nu_svm(0.35), X, Y)
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, ucm.UCMError)


def test_matplotlib_loads_at_the_first_picture() -> None:
    code = "import sys, ucm; ucm.plot.SetDisplay; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_backend_that_is_loaded_by_the_first_picture_stays_interactive(tmp_path: Any) -> None:
    """A notebook shows figures only while its backend is interactive."""
    (tmp_path / "notebook.py").write_text(
        "import matplotlib\nfrom matplotlib.backends.backend_agg import *\nmatplotlib.interactive(True)\n"
    )
    code = (
        "import sys, ucm; sys.path.insert(0, sys.argv[1]); X, y = ucm.datasets.load('wine'); "
        "ucm.plot.SetDisplay.from_model(ucm.models.nu_svm(0.9), X[:, :2], y); "
        "import matplotlib; print(matplotlib.is_interactive())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True,
        env={**os.environ, "MPLBACKEND": "module://notebook"},
    )  # fmt: skip
    assert done.stdout.strip() == "True"


# --- grounds ---------------------------------------------------------------------------------------
def contrast(a: Any, b: Any) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", ["default", "dark_background", "seaborn-v0_8-darkgrid"])
def test_every_name_and_line_stands_out_from_the_ground(style: str) -> None:
    with plt.style.context(style):
        shown = [
            SetDisplay.from_model(models.nu_svm(0.35), X, Y),
            plot.LandscapeDisplay.from_model(models.nu_svm(0.1), CLOSE, Y, n_starts=2),
            PathDisplay.from_model(models.mm_mpm(0.3), X, Y, kappa=[0.1, 1.0, 3.0]),
        ]
    for display in shown:
        ground = to_rgba(display.figure_.get_facecolor())
        assert ground[3] == 1.0
        for ax in display.axes_:
            for text in [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax.title]:
                if text.get_text():
                    assert contrast(to_rgb(text.get_color()), ax.get_facecolor()) >= 2.9, text
            for line in ax.lines:
                if len(line.get_xdata()) > 1:
                    assert contrast(to_rgb(line.get_color()), ax.get_facecolor()) >= 2.9, line


def test_a_transparent_ground_is_made_opaque() -> None:
    for ink, dark in (("black", False), ("white", True)):
        clear: dict[Any, Any] = {
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.transparent": True,
        }
        with plt.rc_context({**clear, "text.color": ink, "axes.labelcolor": ink}):
            shown = SetDisplay.from_model(models.nu_svm(0.35), X, Y, panels="set")
        ground = to_rgba(shown.figure_.get_facecolor())
        assert ground[3] == 1.0
        assert (luminance(ground[:3]) < 0.2) == dark


# --- weights and losses ----------------------------------------------------------------------------
def test_weights_are_multiples_of_the_mean_weight() -> None:
    asked = {"nu": models.nu_svm(0.35), "l2": models.l2_nu_svm(0.25), "kl": models.kl_svm(0.6)}
    shown = plot.WeightsDisplay.from_model(asked, X, Y)
    for name, ax in zip(asked, shown.axes_):
        assert ax.get_title("left") == name
        for sign in (1, -1):
            q = shown.weights[name][sign]
            assert q.mean() == pytest.approx(1.0)
            assert (np.diff(q) <= 0.0).all()
    cap = 2.0 / (60 * 0.35)
    assert shown.weights["nu"][1].max() == pytest.approx(30 * cap)
    q = ucm.solve(asked["nu"], X, Y).weights
    assert q is not None
    assert shown.support["nu"][1] == np.count_nonzero(q[Y > 0] > 1e-6 * q.max())
    clf = ucm.Classifier(asked["nu"]).fit(X, Y)
    assert plot.WeightsDisplay.from_estimator(clf, X, Y).support[""] == shown.support["nu"]


# --- paths -----------------------------------------------------------------------------------------
def test_a_path_shades_inadmissible_values() -> None:
    U = models.mm_mpm(0.3)
    interval = ucm.admissible(U, X, Y)["kappa"]
    shown = PathDisplay.from_model(U, X, Y)
    assert shown.values.size == 50 and shown.values[0] == 0.0 and shown.values[-1] > interval.upper
    (edge, end, why), = shown.regions  # fmt: skip
    assert edge == pytest.approx(interval.upper) and end == shown.values[-1] and why == "zero"
    assert "not convex" in words(shown.axes_[0])
    k = int(np.searchsorted(shown.values, interval.upper))
    assert shown.objective[k - 1] > 0.0 > shown.objective[k]
    for ax in shown.axes_:
        assert any(np.allclose(line.get_xdata(), interval.upper) for line in ax.lines)
    np.testing.assert_allclose(np.linalg.norm(shown.coefficients, axis=1), 1.0)


def test_a_path_of_solutions_in_any_order() -> None:
    A, t = ucm.datasets.load("breast_cancer")
    values = [0.5, 0.2, 0.35]
    found = ucm.path(models.nu_svm(0.3), A[:400], t[:400], nu=values)
    shown = PathDisplay.from_path(found, X_test=A[400:], y_test=t[400:])
    np.testing.assert_allclose(shown.values, [0.2, 0.35, 0.5])
    np.testing.assert_allclose(shown.coefficients, [found[k].w for k in (1, 2, 0)])
    last = found[0]
    assert shown.scores["test"][-1] == np.mean(np.sign(last.decision(A[400:])) == t[400:])
    assert set(shown.scores) == {"training", "test"} and len(shown.axes_) == 4
    top = shown.axes_[0]
    shown.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in top.get_legend().get_texts()]
    assert min(box.x0 for box in boxes) > top.get_window_extent().x1
    names = sorted(box.y0 for box in boxes)
    assert len(names) == 6 and min(np.diff(names)) > 10.0  # beside the axes, one below the other
    alone = PathDisplay.from_model(
        models.svm(1.0), X, Y, lam=[0.1, 1.0], panels=["coefficients", "objective"]
    )
    assert len(alone.axes_) == 2 and alone.interval is None and not alone.regions


@pytest.mark.slow
# --- solvers ---------------------------------------------------------------------------------------
def test_convergence_ends_with_the_certificate() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)
        found = {
            "ssnal": ucm.solve(models.nu_svm(0.35), X, Y, solver="ssnal"),
            "apg": ucm.solve(models.nu_svm(0.35), X, Y, solver="apg"),
            "short": ucm.compile(models.nu_svm(0.35), X, Y, solver="apg").solve(max_iter=5),
        }
    for work in ("passes", "iterations", "seconds"):
        shown = plot.ConvergenceDisplay.from_solution(found, x=work, tol=1e-6)
        for name, solution in found.items():
            steps, gaps = shown.runs[name]
            assert (np.diff(steps) >= 0.0).all() and (gaps > 0.0).all()
            assert gaps[-1] == pytest.approx(max(abs(solution.certificate.relative_gap), 1e-16))
        assert shown.ax_.get_xscale() == shown.ax_.get_yscale() == "log"
        assert "short (max_iter)" in words(shown.ax_)
    run = plot.ConvergenceDisplay.from_model(models.nu_svm(0.35), X, Y, solvers=["ssnal", "apg"])
    assert run.tol == 1e-6 and list(run.runs) == ["ssnal", "apg"]
    clf = ucm.Classifier(models.nu_svm(0.35)).fit(X, np.arange(60) % 3)
    assert len(plot.ConvergenceDisplay.from_estimator(clf).runs) == 3


def test_other_numbers_of_a_trace() -> None:
    apg = ucm.solve(models.nu_svm(0.35), X, Y, solver="apg")
    traced = ucm.solve(models.nu_svm(0.35), X, Y, solver="apg", trace=1)
    for y in ("L", "residual", "restarts"):
        shown = plot.ConvergenceDisplay.from_solution(traced, x="iterations", y=y)
        steps, values = shown.runs["apg"]
        assert steps.size == values.size == apg.stats.iterations + 1
    with pytest.raises(ucm.errors.ParameterError, match=r"hold no number 'L'.*trace=1"):
        plot.ConvergenceDisplay.from_solution(apg, y="L")


def test_convergence_without_gaps_takes_distances() -> None:
    history = [
        {"iteration": k, "objective": -1.0 + 0.1**k, "gap": np.nan, "passes": k, "seconds": k}
        for k in (1, 2, 3)
    ]
    solution = ucm.solve(models.nu_svm(0.35), X, Y)
    from dataclasses import replace

    silent = replace(solution, history=history, objective=-1.0)
    shown = plot.ConvergenceDisplay.from_solution(silent)
    assert shown.distances and "distance" in shown.ax_.get_ylabel()
    np.testing.assert_allclose(shown.runs[solution.stats.solver][1][:3], [0.1, 0.01, 0.001])


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, np.inf])
def test_the_landscape_beyond_the_boundary(norm: float) -> None:
    model = RobustMargin(models.nu_svm(0.1), norm)
    shown = plot.LandscapeDisplay.from_model(model, CLOSE, Y, n_starts=4)
    data = bind(CLOSE, Y)
    W = AROUND / np.linalg.norm(AROUND, ord=norm, axis=1)[:, None]
    f = np.array([model.set.support(data, -w, {})[0] for w in W])
    drawn = np.interp(ANGLES, shown.angles, shown.heights)
    assert np.abs(drawn - f).max() <= shown.error + 5e-3 * np.ptp(f)  # and the linear interpolation
    assert shown.minima[0, 1] == pytest.approx(f.min(), abs=2e-3 * np.ptp(f))
    assert shown.bound is not None
    assert shown.bound <= f.min() + 1e-6
    assert len(shown.descents) == len(shown.reached) == 4
    for angles in shown.descents:
        f_of_iterates = np.interp(angles % (2.0 * np.pi), shown.angles, shown.heights)
        assert (np.diff(f_of_iterates) <= 5e-3).all()
        assert f_of_iterates[-1] <= f_of_iterates[0] + 5e-3 * np.ptp(f)
    assert "proven" in words(shown.axes_[0])


def test_the_landscape_of_the_convex_side() -> None:
    shown = plot.LandscapeDisplay.from_model(models.nu_svm(0.35), X, Y)
    assert not shown.zero_inside and not shown.descents
    below = shown.minima[shown.minima[:, 1] < 0.0]
    assert len(below) == 1
    assert below[0, 1] == pytest.approx(shown.solution.objective, abs=1e-3)
    w = shown.solution.w
    assert np.cos(below[0, 0] - np.arctan2(w[1], w[0])) > 0.9999


def test_a_display_prints_in_a_word() -> None:
    shown = plot.SetDisplay.from_model(models.nu_svm(0.35), X, Y)
    assert repr(shown) == "<SetDisplay: 2 axes>"


def test_each_start_of_a_descent_is_a_curve_that_never_goes_up() -> None:
    found = ucm.compile(models.rlsvm2(0.02), CLOSE, Y).solve(n_starts=4)
    shown = plot.ConvergenceDisplay.from_solution(found, x="iterations", y="objective")
    ends = [h[-1] for _, h in shown.runs.values()]
    assert len(shown.runs) == len(found.start_objectives) and min(ends) == pytest.approx(found.objective)
    for steps, h in shown.runs.values():
        assert (np.diff(h) <= 1e-9 * np.abs(h[:-1])).all()
        np.testing.assert_array_equal(steps, np.arange(1, h.size + 1))
    assert sum(h.size for _, h in shown.runs.values()) == len(found.history)


# --- animations -----------------------------------------------------------------------------------------
def test_an_animation_has_a_slider_over_its_values() -> None:
    animation = plot.SetAnimation.from_model(models.mm_mpm(0.3), X, Y, kappa=[0.2, 1.0, 3.0], n_frames=2)
    assert animation.axes_.shape == (2, 2)
    assert animation.displays[-1].zero_inside and not animation.displays[0].zero_inside
    assert "0 \\in U" in animation.axes_[1, 1].get_title("left")
    limits = {(ax.get_xlim(), ax.get_ylim()) for ax in animation.axes_[1]}
    assert len(limits) == 1
    sizes = [d.outline.size for d in animation.displays]
    assert sizes == sorted(sizes)
    page = animation.to_html()
    assert page.count("<img ") == 3 and "type='range'" in page and "max='2'" in page
    assert "<script" not in page and "http" not in page
    shown = re.findall(r"alt='kappa = ([\d.]+)' style='display:(\w+)", page)
    assert shown == [("0.2", "block"), ("1", "none"), ("3", "none")]


def test_an_animation_without_values_moves_over_the_admissible_interval(tmp_path: Any) -> None:
    animation = plot.SetAnimation.from_model(
        Hull(signed, weights=NormBall(Param("size", 0.3))), X, Y, panels="set"
    )
    interval = ucm.admissible(Hull(signed, weights=NormBall(Param("size", 0.3))), X, Y)["size"]
    assert len(animation.displays) == 16 and animation.axes_.shape == (1, 4)
    assert animation.values[0] == pytest.approx(interval.lower, rel=1e-6)
    small = plot.SetAnimation(animation.name, animation.values[:1], animation.displays[:1])
    small.to_html(tmp_path / "animation.html")
    assert (tmp_path / "animation.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_animation_of_many_features() -> None:
    A, t = ucm.datasets.load("breast_cancer")
    animation = plot.SetAnimation.from_model(
        models.mm_mpm(0.3), A, t, plane="normal", kappa=[0.2, 0.5], n_frames=2
    )
    assert animation.displays[0].in_plane
    np.testing.assert_allclose(animation.displays[0].normal, [1.0, 0.0], atol=1e-9)


def test_a_single_ellipsoid_is_drawn() -> None:
    shown = SetDisplay.from_model(Ellipsoid([2.0, 1.0], np.diag([1.0, 0.25]), 0.5), X, Y)
    assert not shown.classes and shown.outline.size == pytest.approx(1.0, rel=1e-2)
