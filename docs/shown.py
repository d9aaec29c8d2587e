"""An instance of every set, domain, loss and penalty, and how it is drawn on its page of the reference.

A new class is one line in one of the four lists; `tests/test_site.py` says which is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import Param, pos
from ucm.data.bound_data import bind
from ucm.plot.outline import Frame, Projection, projection_outline

kappa, r, nu, a = Param("kappa", 1.0), Param("r", 0.7), Param("nu", 0.5), Param("a", 1.0)

SETS = {
    "Point": ucm.Point(pos.mean),
    "Ball": ucm.Ball(pos.mean, r),
    "Ellipsoid": ucm.Ellipsoid(pos.mean, pos.cov, kappa),
    "Hull": ucm.Hull(pos, weights=ucm.NormBall(Param("kappa", 0.3))),
    "ReducedHull": ucm.ReducedHull(pos, nu=nu),
    "AffineImage": ucm.AffineImage([[1.0, 0.4], [0.0, 0.8]], ucm.NormBall(r, p=3), center=pos.mean),
    "ConvexUnion": ucm.Ellipsoid(pos.mean, pos.cov, Param("kappa", 0.7))
    | ucm.Hull(pos, weights=ucm.NormBall(0.4)),
    "CVaR": ucm.CVaR(pos, Param("beta", 0.3)),
    "SpectralRisk": ucm.SpectralRisk(pos, (0.1, 0.6), (0.5, 0.5)),
    "ChiSquare": ucm.ChiSquare(pos, Param("rho", 0.5)),
    "TotalVariation": ucm.TotalVariation(pos, Param("d", 0.4)),
    "Wasserstein": ucm.Wasserstein(pos, Param("eps", 0.3)),
    "Gelbrich": ucm.Gelbrich(pos, Param("eps", 0.2), kappa),
    "RobustMargin": ucm.RobustMargin(ucm.models.mm_mpm(0.6)),
}


def alike(q: Any, amount: Any) -> list[Any]:
    """Entries of at most 1 that differ by no more than an amount."""
    return [cp.norm(q, "inf") <= 1, cp.max(q) - cp.min(q) <= amount]


DOMAINS = {
    "Simplex": ucm.Simplex(),
    "CappedSimplex": ucm.CappedSimplex(Param("cap", 0.55)),
    "NormBall": ucm.NormBall(Param("kappa", 0.7)),
    "KLBall": ucm.KLBall(Param("alpha", 0.8)),
    "CvxpyDomain": ucm.CvxpyDomain(alike, Param("gamma", 0.5)),
    "ChiSquareBall": ucm.ChiSquareBall(Param("rho", 0.5)),
    "LossBall": ucm.LossBall(ucm.Logistic(), Param("rho", -0.5)),
    "Box": ucm.Box(0.1, Param("upper", 0.6)),
}
LOSSES = {
    "Hinge": ucm.Hinge(),
    "SquaredHinge": ucm.SquaredHinge(),
    "HuberHinge": ucm.HuberHinge(Param("delta", 0.5)),
    "LeastSquares": ucm.LeastSquares(),
    "Logistic": ucm.Logistic(),
    "Exponential": ucm.Exponential(),
    "Ramp": ucm.Ramp(Param("mu", 1.0)),
    "WorstMean": ucm.WorstMean(ucm.Hinge(), weights=ucm.CappedSimplex(1 / Param("beta", 0.5), relative=True)),
    "Robust": ucm.Robust(ucm.Hinge(), within=ucm.Ball(0, Param("r", 0.5))),
    "FeatureDeletion": ucm.FeatureDeletion(1),
    "WassersteinObjective": ucm.WassersteinObjective(ucm.Hinge(), eps=0.1, kappa=1.0),
    "Objective": ucm.models.svm(0.5),
}
PENALTIES = {
    "L2": ucm.L2(),
    "L1": ucm.L1(),
    "LInf": ucm.LInf(),
    "Lp": ucm.Lp(1.5),
    "Norm": ucm.Norm(3),
    "ElasticNet": ucm.ElasticNet(Param("ratio", 0.5)),
    "GroupLasso": ucm.GroupLasso([0, 0]),
    "Quadratic": ucm.Quadratic([[1.0, 0.6], [0.6, 1.0]]),
    "KSupport": ucm.KSupport(1),
    "LinearConstraint": ucm.LinearConstraint([[1.0, -1.0]], -0.5, 1.0),
    "Bounds": ucm.Bounds([-0.5, 0.0], 1.0),
    "NonNegative": ucm.NonNegative(),
    "Cardinality": ucm.Cardinality(1),
    "CappedL1": ucm.CappedL1(a),
    "ExpL0": ucm.ExpL0(Param("a", 2.0)),
    "MCP": ucm.MCP(),
    "SCAD": ucm.SCAD(),
    "GroupMCP": ucm.GroupMCP([0, 0]),
}


def samples() -> tuple[Any, Any]:
    """Two clouds of two features, which touch."""
    rng = np.random.default_rng(3)
    y = np.repeat([1.0, -1.0], 40)
    X = rng.normal(size=(80, 2)) * [1.0, 0.6] + np.outer(y, [1.5, 0.8])
    return X, y


def instance(name: str) -> Any:
    """The instance of that class, or None."""
    every = {
        **SETS,
        **DOMAINS,
        **LOSSES,
        **PENALTIES,
        "generalised_nu_svm": ucm.models.generalised_nu_svm(ucm.Exponential(), 0.5),
        "group_dro": ucm.models.group_dro(["A", "B"]),
    }
    return every.get(name)


def _ink() -> tuple[str, str, str]:
    dark = sum(matplotlib.colors.to_rgb(plt.rcParams["text.color"])) > 1.5
    return ("#56B4E9", "#F28E3D", "#9A9A9A") if dark else ("#0072B2", "#D55E00", "#767676")


def _set(ax: Any, name: str) -> None:
    U, (X, y) = SETS[name], samples()
    blue, orange, grey = _ink()
    if isinstance(U, ucm.RobustMargin):
        U = U.set
    ax.scatter(*X[y > 0].T, s=12, color=blue, alpha=0.7, label="class +1")
    ax.scatter(*X[y < 0].T, s=12, color=orange, marker="s", alpha=0.45, label="class −1")
    shape = projection_outline(Projection(U, bind(X, y), np.eye(2)), Frame.around(X))
    ax.fill(*shape.closed.T, color=blue, alpha=0.2)
    ax.plot(*shape.closed.T, color=blue, marker="o" if len(shape.vertices) == 1 else "")
    ax.axhline(0.0, color=grey, lw=0.5)
    ax.axvline(0.0, color=grey, lw=0.5)
    ax.set_aspect("equal")
    ax.legend(fontsize=8, frameon=False, loc="lower right")


def _domain(ax: Any, name: str) -> None:
    D = DOMAINS[name]
    blue, _, grey = _ink()
    corners = np.array([[-0.866, -0.5], [0.866, -0.5], [0.0, 1.0]])
    data = bind(np.vstack([corners, corners - 9.0]), np.repeat([1.0, -1.0], 3))
    shape = projection_outline(Projection(ucm.Hull(pos, weights=D), data, np.eye(2)), Frame.around(corners))
    ax.plot(*np.vstack([corners, corners[:1]]).T, color=grey, lw=1)
    ax.fill(*shape.closed.T, color=blue, alpha=0.25)
    ax.plot(*shape.closed.T, color=blue)
    for k, (corner, side) in enumerate(zip(corners, ("right", "left", "center"))):
        ax.annotate(f"$q_{k + 1} = 1$", corner * 1.08, ha=side, fontsize=9)
    ax.set(xlim=(-1.5, 1.5), ylim=(-0.75, 1.25), aspect="equal")
    ax.axis("off")


def _loss(ax: Any, name: str) -> None:
    loss = LOSSES[name]
    loss = loss.loss if isinstance(loss, ucm.Objective) else loss
    t = np.linspace(-2.0, 3.0, 301)
    others = [0.0] if isinstance(loss, ucm.WorstMean) else []
    where = {
        ucm.Robust: "where w has the norm 1",
        ucm.FeatureDeletion: "a hinge loss; the largest y x_j w_j is 0.5",
    }
    lost = 0.5 if type(loss) in where else 0.0  # r ||w||_2, or the largest part of the margin
    title = where.get(type(loss))
    loss = ucm.Hinge() if isinstance(loss, ucm.FeatureDeletion) else loss
    ax.plot(t, [loss.value(np.array([x - lost, *others])) for x in t], color=_ink()[0])
    if title:
        ax.set_title(title, fontsize=8)
    if others:
        ax.set_title("of two samples, one with the margin t, one with 0", fontsize=8)
    ax.plot(t, t <= 0.0, color=_ink()[2], lw=1, ls="--")
    ax.annotate("error", (-1.9, 1.08), color=_ink()[2], fontsize=8)
    ax.set(xlabel="margin  $t = y(w'x + b)$", ylabel="loss", ylim=(-0.2, 5.0))


def _penalty(ax: Any, name: str) -> None:
    penalty = PENALTIES[name]
    w = np.linspace(-2.0, 2.0, 121)
    heights = np.array([[penalty.value(np.array([u, v])) for u in w] for v in w])
    heights = np.where(np.isfinite(heights), heights, np.nan)
    if np.nanmax(heights) > np.nanmin(heights):
        levels = np.linspace(np.nanmin(heights), np.nanmax(heights), 8)[1:-1]
        drawn = ax.contour(w, w, heights, levels=levels, colors=_ink()[0], linewidths=1.5)
        ax.clabel(drawn, fontsize=7, fmt="%.2g")
    else:
        ax.contourf(w, w, np.isfinite(heights), levels=[0.5, 1.5], colors=_ink()[0], alpha=0.25)
        ax.set_title("0 in the region, infinite elsewhere", fontsize=8)
    ax.axhline(0.0, color=_ink()[2], lw=0.5)
    ax.axvline(0.0, color=_ink()[2], lw=0.5)
    ax.set(xlabel="$w_1$", ylabel="$w_2$", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")


_DRAWN: list[tuple[dict[str, Any], Callable[[Any, str], None], str]] = [
    (SETS, _set, "drawn over samples of two features"),
    (DOMAINS, _domain, "the weights of three samples that it allows, in the simplex"),
    (LOSSES, _loss, "of one margin"),
    (PENALTIES, _penalty, "level lines over two weights"),
]


def words(name: str) -> str:
    """What the picture of a class shows."""
    return next(said for table, _, said in _DRAWN if name in table)


def draw(name: str, folder: Path) -> None:
    """Writes `name-light.svg` and `name-dark.svg`."""
    drawn = next(drawn for table, drawn, _ in _DRAWN if name in table)
    for shade, style in (("light", "default"), ("dark", "dark_background")):
        with plt.style.context(style), plt.rc_context({"svg.hashsalt": name}):
            figure, ax = plt.subplots(figsize=(4.2, 3.0), layout="tight")
            drawn(ax, name)
            figure.savefig(folder / f"{name}-{shade}.svg", transparent=True, metadata={"Date": None})
            plt.close(figure)
