"""The route table: which solver takes which form, in order of preference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ucm import numerics
from ucm.data.bound import GramSpace
from ucm.errors import ParameterError, SolverError, brief, nearest
from ucm.forms.distance import MinNorm
from ucm.forms.nearest import NearestPoint
from ucm.forms.objective import Composite, DifferenceOfConvex, InnerSolver
from ucm.forms.pair import HingeDual
from ucm.forms.rows import RowBalls, RowHulls, RowLosses
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import Capped
from ucm.solvers import (
    ALM,
    APG,
    DCA,
    ECOS,
    GSK,
    MDM,
    PSMO,
    SCS,
    Clarabel,
    ClarabelComposite,
    ClipGSK,
    ClipMDM,
    DualNewton,
    Faces,
    Facets,
    GramNewton,
    GramSieve,
    GrowingBall,
    HiGHS,
    HiGHSDistance,
    HingeBand,
    HingeSieve,
    InSpan,
    KinkedNewton,
    Linearize,
    Newton,
    NewtonBalls,
    NewtonHull,
    NewtonRows,
    PrimalAPG,
    ProxNewton,
    Rapminos,
    Relaxed,
    ScaledNewton,
    Secular,
    SecularSphere,
    Sieve,
    Simplex,
    Subgradient,
)

__all__ = [
    "ROUTES", "Route", "check_asked", "choose", "named", "refusal", "routes", "table", "unknown",
    "verdicts",
]  # fmt: skip


# samples from which on bands are looked at: the Gram matrix of fewer than 5000 fits the cache_size of 200
_MANY_ROWS, _MANY_MULTIPLIERS = 5000, 10_000


def _always(form: Any) -> bool:
    return True


def _never(form: Any) -> bool:
    return False


def _free(form: MinNorm) -> bool:
    """Whether nothing couples the blocks."""
    return not form.couplings


def _compiled(form: MinNorm) -> bool:
    """Whether the compiled loop of two hulls is at hand; where it is not, a child process begins to compile
    it, if the form is one for it."""
    if numerics.ready("newton_hull"):
        return True
    fits = bool(form.couplings) or NewtonHull().refuse(form) is None
    return fits and not numerics.soon(*_FIRST)


def _round(form: MinNorm) -> bool:
    """Whether no block is the weights of a hull, either."""
    return _free(form) and not any(isinstance(b.domain, Capped) for b in form.blocks)


def _many_rows(form: MinNorm) -> bool:
    """Whether the store has no room for a row of the Gram matrix for each support vector, of which there are
    at least `mass / cap` in each hull, and half as many more.

    Measured by process time of whole calls on ijcnn1 and cod-rna: .3 to .5 of it at 12,000 samples and
    `cache_size=200`; 1.3 to 2.8 times it at 7000, where the rows have room.
    """
    gram = form.space.gram if isinstance(form.space, GramSpace) else None
    if gram is None or gram.given or gram.m < _MANY_ROWS:
        return False
    groups = [g for b in form.blocks for g in b.groups or ()]
    return 1.5 * sum(g.mass / g.most for g in groups) > gram.store.shape[0]


def _many_multipliers(form: HingeDual) -> bool:
    """Where a band and tiles take less time than the rows of the samples that move: .3 to .9 of it at 15,000
    samples, 2 to 4 times it at 6000."""
    return form.X is None and not form.gram.given and form.m >= _MANY_MULTIPLIERS


def _many_features(form: HingeDual) -> bool:
    """Where pair updates cost less than linear systems in w: few for a smooth loss, and for the hinge loss
    of the samples near its kink only."""
    if form.X is None:
        return True
    return form.p < 2.0 and form.X.shape[1] > (500 if form.p == 1.0 else 128)


def _many_samples(form: Composite) -> bool:
    """Where an interior-point method takes longer than some tens of steps, which are not compiled. With the
    largest weight over fewer samples than features it does not: nearly all weights are equal."""
    return form.entries >= 10_000 and not (form.n > form.m and form.norms[2] > 0.0)


def _soon(form: UnitNorm) -> bool:
    """Whether a bound for every face takes some ten seconds at most. The work is counted in entries: those
    of a linear program for each face over hulls, of a conic one, a hundred times as dear, for each over
    intersections; else those that cutting planes read and pivot on, for some 8 points in every dimension."""
    r, image = form.rank, form.image
    faces = 2.0**image.n if form.norm == 1.0 else 2.0 * image.n
    entries = sum(b.map.entries for b in image.blocks)
    if form.hulls is not None:
        return faces * entries <= 2e7
    if image.couplings:
        return faces * entries <= 2e5
    return faces * 8.0 * (r + 1) * (entries + 50.0 * r * r) <= 1.5e9


@dataclass(frozen=True)
class Route:
    """One row of the table.

    Attributes
    ----------
    solver, purpose : the row; `solver.takes` is the form that it is for
    automatic : the forms that it takes under `solver="auto"`, of those that the solver does not refuse
    """

    solver: Solver[Any]
    purpose: str
    automatic: Callable[[Any], bool] = _always


_FIRST = ("capped", "newton_hull")  # what a child process compiles, the shorter first
_EUCLIDEAN = (InSpan(Newton()), Newton(), APG(), Newton(iterative=True), ALM(APG()))
_VERTEX = Simplex(HiGHS(), rest=ClarabelComposite())
_KINKED = KinkedNewton(rest=ClarabelComposite())
_SIEVE = GramSieve(GramNewton(), ClipMDM())
_GROWING = GrowingBall(_EUCLIDEAN[1:])

ROUTES = (
    # min ||x||_q over a lowered set
    Route(
        Secular(rest=Newton()), "Euclidean balls only: scalar roots, or a small subspace", _round
    ),
    Route(NewtonHull(), "two hulls of samples: a band of them, from few samples to all", _compiled),
    Route(
        Relaxed((Secular(), NewtonHull()), (InSpan(Newton()), Newton())),
        "intersections that may not cut: one side of them, and whether its point lies in the other",
        _compiled,
    ),
    Route(InSpan(Newton()), "far more features than parameters: the next row in their span"),
    Route(Newton(), "systems of a few thousand at most: few passes, high accuracy"),
    Route(APG(), "any size: one pass an iteration, exact projections"),
    Route(Newton(iterative=True), "the same with systems of any order, by conjugate gradients"),
    Route(ALM(APG()), "coupled blocks: augmented Lagrangian around APG"),
    Route(
        _SIEVE,
        "many samples behind a kernel: bands of them, no rows of the Gram matrix kept",
        _many_rows,
    ),
    Route(GramNewton(rest=_SIEVE), "reduced convex hulls behind a kernel: few free samples decide"),
    Route(ClipMDM(), "reduced convex hulls, by inner products: rows of the Gram matrix as needed"),
    Route(HiGHSDistance(), "norms 1 and inf of w, polyhedral sets: linear programs by HiGHS"),
    Route(
        ScaledNewton(_EUCLIDEAN, rest=_GROWING),
        "other norms: Newton steps, each a Euclidean problem for one of the above",
    ),
    Route(
        _GROWING,
        "norms but the Euclidean: a ball of it grows until it meets the set, Euclidean problems",
        _never,
    ),
    Route(Clarabel(), "anything convex: interior point, through CVXPY"),
    Route(ECOS(), "anything conic: interior point, through CVXPY", _never),
    Route(SCS(), "anything convex, modest accuracy: splitting, through CVXPY", _never),
    Route(GSK(), "reduced convex hulls: steps to extreme points", _never),
    Route(MDM(), "reduced convex hulls: weight to extreme points; may stall", _never),
    Route(ClipGSK(), "reduced convex hulls: clipped GSK; may stall", _never),
    # rows that are read block by block
    Route(
        Sieve(NewtonHull()),
        "two hulls of rows: a sample, the rows near the thresholds, a proof over all",
    ),
    Route(Sieve(Newton()), "two hulls of rows with weights: so too"),
    Route(NewtonBalls(), "weights of rows in balls: Newton steps from sums over all rows"),
    Route(
        HingeSieve(DualNewton()),
        "the hinge and the ramp loss with l2 over rows: so too, around their kink",
    ),
    Route(HingeSieve(_VERTEX), "the same with penalties of straight sides"),
    Route(HingeSieve(_KINKED), "the same with any penalty"),
    Route(NewtonRows(), "smooth losses with l2 over rows: Newton steps from sums over all"),
    # 0 in U: the unit sphere
    Route(SecularSphere(), "one ellipsoid, p = 2: the global minimum by one scalar root"),
    Route(Facets(), "up to three dimensions, any norm: the global minimum"),
    Route(Faces(), "p = inf and p = 1: the global minimum, a bound for every face", _soon),
    Route(Rapminos(), "sums of reduced hulls, any norm: a local minimum"),
    Route(Linearize(nearest=Newton()), "any set, any norm: a stationary point"),
    Route(Subgradient(), "any set without intersections: a baseline", _never),
    # hinge losses with the squared l2 norm, by their dual
    Route(
        HingeBand(PSMO()),
        "many samples behind a kernel: bands of them by pair updates",
        _many_multipliers,
    ),
    Route(
        PSMO(),
        "pair updates; linear kernels on a working set of support vectors",
        _many_features,
    ),
    # loss + penalty, and the convex problems inside of DCA
    Route(_VERTEX, "piecewise linear, dense: compiled simplex, warm, taken in as needed"),
    Route(
        HiGHS(samples=10_000, rough=KinkedNewton(max_outer=8)),
        "piecewise linear: dual simplex, warm, taken in as needed",
    ),
    Route(
        ProxNewton(rest=PrimalAPG(rest=ClarabelComposite())),
        "smooth losses: proximal Newton steps, features as needed",
    ),
    Route(DualNewton(), "one loss, squared l2 norm: some tens of products with the samples"),
    Route(
        _KINKED,
        "losses with kinks: multipliers around proximal Newton steps",
        _many_samples,
    ),
    Route(
        PrimalAPG(rest=ClarabelComposite()),
        "smooth losses: accelerated proximal gradient on the primal",
    ),
    Route(ClarabelComposite(), "anything convex: interior point, through CVXPY, built once"),
)
"""All routes: for its form the first row that fits is taken.

| form | in this order |
| --- | --- |
| `MinNorm`, Euclidean | secular (balls of parameters), newton-hull (two hulls of samples), relaxed \
(intersections that may not cut), newton-span, newton (semismooth projections), apg (exact projections), \
newton-cg, alm (coupled blocks), gram-sieve (many samples), newton-gram and clip-mdm (inner products only) |
| `MinNorm`, other norms | highs-distance (1 and inf, polyhedral), scaled-newton (with growing-ball), \
clarabel |
| `RowHulls` | sieve (rows that are read block by block) |
| `RowBalls` | newton-balls (the same, their weights in balls) |
| `RowLosses` | hinge-sieve (the hinge and the ramp loss), newton-rows (smooth losses) |
| `UnitNorm` | secular-sphere, facets, faces: global minima; rapminos, linearize |
| `HingeDual` | hinge-band (kernels, many samples), psmo (kernels, many features; \
with few features `Composite`) |
| `Composite` | simplex (piecewise linear, l1, l infinity), highs (l1), prox-newton (smooth losses), \
newton-dual (one loss, squared l2), prox-newton-alm (kinks, data that are not small), apg-primal (smooth), \
clarabel-loss |
| `DifferenceOfConvex` | dca around the first row that takes the convex part |
"""

_FAMILIES = {
    "hinge-newton": ("newton-dual",),
    "newton": (
        "newton-hull",
        "newton-span",
        "newton",
        "newton-cg",
        "prox-newton",
        "newton-dual",
        "prox-newton-alm",
    ),
    "apg": ("apg", "apg-primal"),
    "highs": ("highs", "highs-distance"),
    "clarabel": ("clarabel", "clarabel-loss"),
}
"""Names that mean the first of these that fits."""


_WORDS = {
    MinNorm: "the minimum norm of a set",
    UnitNorm: "a set that holds 0",
    RowHulls: "two hulls of rows that are read block by block",
    RowBalls: "hulls of rows that are read block by block, their weights in balls",
    RowLosses: "losses with the squared l2 norm over rows that are read block by block",
    HingeDual: "hinge losses with the squared l2 norm",
    Composite: "a convex loss with a convex penalty",
    DifferenceOfConvex: "a difference of convex losses and penalties",
}


def _called(route: Route, name: object) -> bool:
    return route.solver.name in (_FAMILIES.get(name, (name,)) if isinstance(name, str) else ())


def label(solver: Solver[Any]) -> str:
    """Its name, and that of the solver inside where the same method goes around several."""
    inside = solver.inner if isinstance(solver, DCA | HingeSieve | Sieve) else None
    return solver.name if inside is None else f"{solver.name} around {inside.name}"


def named(asked: str | Solver[Any], form: type) -> list[Solver[Any]]:
    """The solvers for a form that are meant by a name, in order, or the instance itself."""
    if isinstance(asked, Solver):
        return [asked] if issubclass(form, asked.takes) else []
    return [r.solver for r in ROUTES if _called(r, asked) and r.solver.takes is form]


def refusal(solver: Solver[Any], form: Any) -> str | None:
    """Why a solver does not take the form; None when it does."""
    rows = isinstance(form, MinNorm) and isinstance(form.space, GramSpace)
    if rows and not isinstance(solver, NearestPoint):
        return "there are inner products only, and it needs coordinates"
    return solver.refuse(form)


def choose(form: Any, asked: str | Solver[Any]) -> Solver[Any] | None:
    """The solver for a form: the first row of `ROUTES` that fits, or what was asked for by name or as
    an instance. None where that takes another form, or no row is automatic.

    Raises
    ------
    SolverError
        A solver asked for refuses the form.
    """
    if isinstance(form, DifferenceOfConvex):
        return _around(form, asked)
    if asked == "auto":
        fitting = (
            r.solver for r in routes(form) if r.automatic(form) and not refusal(r.solver, form)
        )
        return next(fitting, None)
    wanted = named(asked, type(form))
    for solver in wanted:
        if refusal(solver, form) is None:
            return solver
    if wanted:
        name = asked if isinstance(asked, str) else asked.name
        raise SolverError(
            f"solver {name!r} does not take this model"
            f"{' where 0 lies in U' if isinstance(form, UnitNorm) else ''}: "
            f'{refusal(wanted[-1], form)}; use solver="auto"'
        )
    return None


def _around(form: DifferenceOfConvex, asked: str | Solver[Any]) -> Solver[Any] | None:
    """DCA around the solver of the convex part."""
    outer = asked if isinstance(asked, DCA) else DCA()
    if asked == "dca" or isinstance(asked, DCA):
        asked = outer.inner or "auto"
    inner = choose(form.G, asked)
    return replace(outer, inner=inner) if isinstance(inner, InnerSolver) else None


def check_asked(asked: Any) -> None:
    """Raises `ParameterError` where the option `solver` is neither a name nor a solver."""
    if isinstance(asked, str):
        return
    if not isinstance(asked, Solver) or not isinstance(getattr(asked, "name", None), str):
        hint = "an instance of it" if isinstance(asked, type) else "a solver instance with a `name`"
        raise ParameterError(f'solver: expected "auto", a name, or {hint}; got {brief(asked)}')


def unknown(asked: str | Solver[Any], forms: Sequence[Any]) -> ParameterError | SolverError:
    """The error for a solver that none of the forms has a row for."""
    if isinstance(asked, Solver):
        takes = _WORDS.get(asked.takes, asked.takes.__name__)
        return SolverError(
            f'solver {asked.name!r} does not take this model: it takes {takes}; use solver="auto"'
        )
    known = dict.fromkeys(r.solver.name for form in forms for r in routes(form))
    words = '"auto", "dca"' if isinstance(forms[-1], Composite) else '"auto"'
    near = nearest(asked, [*known, *_FAMILIES])
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return ParameterError(
        f"solver: expected {words}, a solver instance or one of {', '.join(known)}; got {brief(asked)}{meant}"
    )


_BY_FORM = {
    kind: tuple(r for r in ROUTES if r.solver.takes is kind)
    for kind in {r.solver.takes for r in ROUTES}
}


def routes(form: Any) -> tuple[Route, ...]:
    """The rows of a form; of a difference of convex functions those of its convex part."""
    kind = Composite if isinstance(form, DifferenceOfConvex) else type(form)
    return _BY_FORM.get(kind, ())


def verdicts(
    form: Any, asked: str | Solver[Any], chosen: Solver[Any] | None
) -> list[tuple[str, str]]:
    """(name, "chosen", "possible" or the reason against it) for the rows of a form."""
    if isinstance(chosen, DCA) and isinstance(form, DifferenceOfConvex):
        asked = asked.inner or "auto" if isinstance(asked, DCA) else asked
        return verdicts(form.G, "auto" if asked == chosen.name else asked, chosen.inner)
    if asked != "auto":
        return [] if chosen is None else [(chosen.name, "chosen, by name")]
    table: list[tuple[str, str]] = []
    for route in routes(form):
        why = refusal(route.solver, form)
        word = "chosen" if route.solver is chosen else "possible"
        taken = f"{word}{_predicted(route.solver, form)}: {route.purpose}"
        table.append((label(route.solver), taken if why is None else f"refused: {_rounded(why)}"))
    return table


def _rounded(text: str) -> str:
    """Text with its long numbers to six digits."""
    return re.sub(r"\d+\.\d{7,}(e[-+]?\d+)?", lambda x: f"{float(x[0]):.6g}", text)


def _predicted(solver: Solver[Any], form: Any) -> str:
    passes = solver.predicted_passes(form)
    return "" if math.isnan(passes) else f", about {round(passes, 1):g} passes"


def _nearby(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The chosen row, and the two that would be asked next: after it, then before it."""
    chosen = next((k for k, (_, verdict) in enumerate(rows) if verdict.startswith("chosen")), 0)
    return [*rows[chosen : chosen + 3], *reversed(rows[:chosen])][:3]


def table(rows: Sequence[tuple[str, str]], whole: bool = True) -> list[str]:
    """The rows as lines, the names padded; not whole, the chosen one and two more."""
    kept = rows if whole else _nearby(rows)
    width = max((len(name) for name, _ in kept), default=0)
    left = len(rows) - len(kept)
    more = [f"  {left} more: explain(verbose=True)"] if left else []
    return [f"  {name:<{width}}  {verdict}" for name, verdict in kept] + more
