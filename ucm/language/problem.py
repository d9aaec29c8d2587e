"""The primal and the dual problem of a model in LaTeX, with support functions and conjugates written out.

A set, a loss or a penalty without a rule below is written by its definition: `max over x in U of d'x`, or a
conjugate by its name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ucm.data.linear_map import Matrix
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import CappedSimplex, KLBall
from ucm.language.losses import Exponential, Hinge, HuberHinge, LeastSquares, Logistic
from ucm.language.node import LATEX, as_declared, operator
from ucm.language.objective import Objective, ScaledLoss, TermMultiple
from ucm.language.parameter import value
from ucm.language.penalties.norms import L1, L2, Lp, Norm
from ucm.language.robust import RobustMargin, dual_exponent
from ucm.language.robust_samples import Robust, without_perturbations
from ucm.language.sets.affine_image import Ball, Ellipsoid, Point
from ucm.language.sets.combination import Combination, is_number
from ucm.language.sets.hull import Hull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.affine import Origin, VectorNode
from ucm.language.statistics.samples import SampleNode, kinds_of
from ucm.language.terms import ConvexLoss, JointLoss, Loss, Penalty, multiple
from ucm.language.worst_mean import WorstMean


def _loose(text: str) -> str:
    """Return the text as a factor of a product, in parentheses if a sum or negative."""
    return f"({text})" if " + " in text or " - " in text or text.startswith("-") else text


def _added(terms: Iterable[str]) -> str:
    return " + ".join(t for t in terms if t).replace("+ -", "- ") or "0"


def _sum_over(samples: SampleNode, term: str) -> str:
    return LATEX.sum_over(samples.index(LATEX), term)


def _inner(d: str, x: str) -> str:
    return f"{d}'{_loose(x)}"


def _at(center: VectorNode, d: str) -> str:
    return "" if isinstance(center, Origin) else _inner(d, center.formula(LATEX))


@functools.singledispatch
def support_latex(U: UncertaintySet, d: str, depth: int = 0) -> str:
    """Return the support function of a set in LaTeX; registered by class of set.

    d : the direction, a vector such as `w` or `-w`
    depth : the number of intersections around, which names the parts of a split
    """
    return rf"\max_{{x \in {U.formula(LATEX)}}} {_inner(d, 'x')}"


@support_latex.register
def _(U: Point, d: str, depth: int = 0) -> str:
    return _at(U.vector, d)


@support_latex.register
def _(U: Ball, d: str, depth: int = 0) -> str:
    norm = LATEX.norm(d.removeprefix("-"), f"{dual_exponent(U.p):g}")
    return _added([_at(U.center, d), f"{LATEX.scalar(U.radius)} {norm}"])


@support_latex.register
def _(U: Ellipsoid, d: str, depth: int = 0) -> str:
    v = d.removeprefix("-")
    root = rf"\sqrt{{{v}'{_loose(U.shape.formula(LATEX))} {v}}}"
    return _added([_at(U.center, d), f"{LATEX.scalar(U.radius)} {root}"])


@support_latex.register
def _(U: Hull, d: str, depth: int = 0) -> str:
    samples, g = U.samples, _inner(d, U.samples.each(LATEX))
    counting = samples.counting(LATEX)
    match U.weights, "signed" in kinds_of(samples):
        case None, False:
            return rf"\max_{{{samples.index(LATEX)}}} {g}"
        case KLBall(alpha=alpha), False:
            total = _sum_over(samples, rf"\exp(\frac{{{g}}}{{\tau}})")
            return (
                rf"\min_{{\tau > 0}} \tau \log(\frac{{1}}{{{LATEX.scalar(alpha)} {counting.total}}} {total})"
            )
        case CappedSimplex() as D, False:  # the dual of max sum q_i g_i over 0 <= q <= cap, sum q = 1
            rho = LATEX.sub(r"\rho", samples.subscript(LATEX))
            over = _sum_over(samples, rf"\max(0, {g} - {rho})")
            return rf"\min_{{{rho}}} ({rho} + {D.largest(counting)} {over})"
    confined = "" if U.weights is None else f", {U.weights.inside_formula(counting)}"
    return rf"\max_{{q \in \Delta{confined}}} {_sum_over(samples, f'q_{{i}} {_loose(g)}')}"


@support_latex.register
def _(U: Combination, d: str, depth: int = 0) -> str:
    return _added(_of_multiple(V, L, d, depth) for V, L in U.terms())


def _of_multiple(U: UncertaintySet, L: Matrix, d: str, depth: int) -> str:
    """Return the support function of `L U` in LaTeX, L a scalar or a matrix."""
    v, minus = d.removeprefix("-"), d.startswith("-")
    if not is_number(L):
        return support_latex(U, f"{'-' * minus}({LATEX.array(L)}'{v})", depth)
    c = value(L)
    height = support_latex(U, f"{'-' * (minus != (c < 0.0))}{v}", depth)
    if isinstance(L, float):
        return height if abs(c) == 1.0 else f"{LATEX.scalar(abs(c))} ({height})"
    return f"{LATEX.scalar(L) if c >= 0.0 else f'|{LATEX.scalar(L)}|'} ({height})"


@support_latex.register
def _(U: Intersection, d: str, depth: int = 0) -> str:
    s, t = (LATEX.sub(name, str(depth + 1)) for name in "st")
    parts = (support_latex(S, v, depth + 1) for S, v in ((U.left, s), (U.right, t)))
    return rf"\min_{{{s} + {t} = {d}}} ({_added(parts)})"


@support_latex.register
def _(U: ConvexUnion, d: str, depth: int = 0) -> str:
    return rf"\max({', '.join(support_latex(V, d, depth) for V in U.sets)})"


# --- losses and penalties: their terms of the dual, and the ranges of the variables ------------------
Rule = tuple[str, str]


def loss_dual(loss: Loss, a: str) -> Rule:
    """Return the dual term `-l*(-a)` of a loss l of the margin, and the range of a, in LaTeX."""
    unit = rf"0 \le {a} \le 1"
    match loss:
        case ScaledLoss():
            c = LATEX.scalar(loss.factor)
            dual, where = loss_dual(loss.term, rf"\tfrac{{{a}}}{{{c}}}")
            return f"{c} ({dual})", where
        case Hinge(p=1.0):
            return multiple(loss.start, a, LATEX), unit
        case Hinge(p=p):
            power = rf"(\frac{{{a}}}{{{p:.6g}}})^{{{dual_exponent(p):.4g}}}"
            return rf"{multiple(loss.start, a, LATEX)} - {p - 1.0:.6g} {power}", rf"{a} \ge 0"
        case HuberHinge():
            return rf"{a} - \frac{{{LATEX.scalar(loss.delta)}}}{{2}} {a}^{{2}}", unit
        case LeastSquares():
            return rf"{a} - \frac{{1}}{{4}} {a}^{{2}}", ""
        case Exponential():
            return rf"{a} - {a} \log {a}", rf"{a} \ge 0"
        case Logistic():
            return rf"-{a} \log {a} - (1 - {a}) \log(1 - {a})", unit
    return rf"- \ell^{{*}}(-{a})", ""


def penalty_dual(penalty: Penalty, v: str) -> Rule:
    """Return the dual term `-R*(v)` of a penalty R, and the range of v, in LaTeX."""
    pairs = sorted(map(_weighted, penalty.addends()), key=lambda pair: repr(pair[0]))
    match pairs:
        case [(L1(weights=None), c), (L2(), c2)]:
            over = rf"\max(0, |v_{{j}}| - {c or '1'})^{{2}}"
            return rf"- \frac{{1}}{{{_product('4', c2)}}} \sum_{{j}} {over}", f"v = {v}"
        case [(L2(), c)]:
            return rf"- \frac{{1}}{{{_product('4', c)}}} {LATEX.norm(v, '2')}^{{2}}", ""
        case [(L1(weights=None), c)]:
            return "", rf"{LATEX.norm(v, 'inf')} \le {c or '1'}"
        case [(L1(), c)]:
            return "", rf"|v_{{j}}| \le {c or '1'} c_{{j}},\quad v = {v}"
        case [(Norm(p=p), c)]:
            return "", rf"{LATEX.norm(v, f'{dual_exponent(p):.4g}')} \le {c or '1'}"
        case [(Lp(p=p), c)]:
            ratio = rf"(\frac{{|v_{{j}}|}}{{{_product(f'{p:.6g}', c)}}})^{{{dual_exponent(p):.4g}}}"
            return rf"- {_product(f'{p - 1.0:.6g}', c)} \sum_{{j}} {ratio}", f"v = {v}"
    return rf"- R^{{*}}({v})", ""


def _weighted(term: Loss | Penalty) -> tuple[Loss | Penalty, str]:
    """Return (S, c) for the penalty `c S`, with c in LaTeX, empty for c = 1."""
    if not isinstance(term, TermMultiple):
        return term, ""
    base, c = _weighted(term.term)
    return base, _product(LATEX.scalar(term.factor), c)


def _product(*factors: str) -> str:
    return LATEX.times.join(x for x in factors if x)


# --- models ----------------------------------------------------------------------------------------
@operator("problem_latex")
def problem_latex(model: Objective | UncertaintySet | RobustMargin) -> str:
    r"""Return the primal and the dual problem of a model in LaTeX, an `aligned` block without dollar signs.

    Of a set these are `min over ||w||_p = 1 of sigma_U(-w)`, the support function written out, and
    `max over x in U of -||x||_q`; they are equal where 0 is not in U. Of a convex objective the dual is
    Fenchel's; of another the two convex functions whose difference it is.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.models.mm_mpm(0.5).problem_latex().splitlines()[1])
    \text{primal} \quad & \min_{\lVert w \rVert_{2} = 1} \left[ -w'\bar x_{+} + \kappa \sqrt{w'\Sigma_{+} w} + w'\bar x_{-} + \kappa \sqrt{w'\Sigma_{-} w} \right] \\
    """  # noqa: E501
    declared = as_declared(model, "model")
    rows = _objective(declared) if isinstance(declared, Objective) else _robust(declared)
    values = [p.with_value(LATEX) for p in model._params.values()]
    if values:
        rows["with"] = r",\quad ".join(values)
    lines = (rf"\text{{{name}}} \quad & {LATEX.sized_delimiters(text)}" for name, text in rows.items())
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _robust(model: RobustMargin) -> dict[str, str]:
    sphere = rf"\min_{{{LATEX.norm('w', f'{model.norm:g}')} = 1}}"
    U = model.set.formula(LATEX)
    most = support_latex(model.set, "-w")
    most = rf"\left[ {most} \right]" if " + " in most else most
    return {
        "primal": f"{sphere} {most}",
        "dual": rf"\max_{{x \in U}} -{LATEX.norm('x', f'{model.dual:.4g}')},\quad U = {U}",
    }


def _objective(model: Objective) -> dict[str, str]:
    """Return the primal of an objective, and its dual; of one that is not convex its convex parts."""
    if "flips" in model.needs:
        return {"primal": model.formula(LATEX)}
    total = f"{model.loss.formula(LATEX)} + {model.penalty.formula(LATEX)}"
    margins = f"t_{{i}} = y_{{i}}{model.score('x_{i}', LATEX)}"
    primal = {"primal": rf"\min_{{{model.variables}}} {total},\quad {margins}"}
    if model.relaxed and model.relative_names():  # whose lower bound has a factor that is not known
        return primal
    G, H = model.dc()
    if model.relaxed:
        return {**primal, "at least": rf"\min_{{{model.variables}}} {G.formula(LATEX)}"}
    if not model.convex:
        return {**primal, "added": G.formula(LATEX), "subtracted": H.formula(LATEX)}
    moved = model.loss.nodes_of_type(Robust)  # the dual moves the samples within their sets
    x = "x_{i} + d_{i}" if moved else "x_{i}"
    x = f"({x}, {model.scaling:g})" if model.penalised else f"({x})" if moved else x
    penalty_term, confined = penalty_dual(model.penalty, LATEX.sum_over("i", f"a_{{i}} y_{{i}} {x}"))
    loss_term, variables, ranges, name = _losses_dual(model)
    balanced = r"\sum_{i} a_{i} y_{i} = 0" if model.intercept == "free" else ""
    ranges = [balanced, *ranges, confined, *(robust.points(LATEX) for robust in moved)]
    if "^{*}" in loss_term + penalty_term:
        ranges.append(rf"{name} R \text{{ the penalty, }} * \text{{ conjugates}}")
    dual = rf"\max_{{{variables}}} {loss_term} {penalty_term}"
    return {**primal, "dual": dual, "where": r",\quad ".join(r for r in ranges if r)}


def _losses_dual(model: Objective) -> tuple[str, str, list[str], str]:
    """Return the losses' term of the dual, its variables, their ranges, and the meaning of its letter."""
    known = "" if model.offset is None else f"a_{{i}} y_{{i}} {model.offset.formula(LATEX)}"
    beside = f" - {LATEX.sum_over('i', known)}" if known else ""
    letter = r"\ell \text{ the loss of a margin, }"
    match model.loss:
        case WorstMean(groups=()) as worst:  # whose weights q are variables
            term, where = loss_dual(without_perturbations(worst.loss), "s_{i}")
            term = LATEX.sum_over("i", f"q_{{i}} {_loose(term) if term != 's_{i}' else term}")
            return term + beside, worst.weights_formula(LATEX), ["a_{i} = q_{i} s_{i}", where], letter
        case loss if loss.nodes_of_type(JointLoss):
            return f"- F^{{*}}(a){beside}", "a", [], r"F \text{ the losses of minus the margins, }"
        case loss:
            term, where = loss_dual(without_perturbations(loss), "a_{i}")
            term = _loose(term) if term.lstrip("-") != "a_{i}" else term
            own = loss.counted if isinstance(loss, ConvexLoss) else None
            only = [] if own is None else [rf"a_{{i}} = 0 \text{{ unless }} {own.index(LATEX)}"]
            term = f"({term} - {known})" if known else term
            return rf"\sum_{{i}} {term}", "a", [*only, where], letter
