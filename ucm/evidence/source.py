"""A declaration as the CVXPY program that a reader would write: standalone source text.

How one kind of set is written is one function below, found by its class, from its definition and not from
`cvxpy`. Domains, losses and penalties write down their own CVXPY expressions (`ucm.language.text`). A class
without a text of its own is rebuilt from JSON by the text, which then imports this library.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ucm.errors import CompositionError, brief
from ucm.language.contracts import Domain, UncertaintySet
from ucm.language.domains import (
    Box,
    CappedSimplex,
    CvxpyDomain,
    DomainIntersection,
    NormBall,
    Product,
    Simplex,
    SimplexBall,
    WeightedSimplex,
)
from ucm.language.domains.curved import CutSimplex
from ucm.language.json import to_json
from ucm.language.node import Node, value
from ucm.language.objective import Objective
from ucm.language.parameter import (
    Coefficient,
    Derived,
    Param,
    Quantity,
    Scalar,
    Scope,
    Size,
    Tunable,
)
from ucm.language.penalties.groups import GroupExcess
from ucm.language.robust import RobustMargin, as_model
from ucm.language.sets.ball import Ball
from ucm.language.sets.combination import Combination, is_number
from ucm.language.sets.ellipsoid import Ellipsoid
from ucm.language.sets.hull import Hull, ReducedHull
from ucm.language.sets.image import Image
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.point import Point
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.cloud import Cloud
from ucm.language.statistics.matrices import ConstantMatrix, MatrixNode, MatrixSum
from ucm.language.statistics.samples import Covariance, Mean, SampleNode, Samples, kinds_of
from ucm.language.statistics.vectors import ConstantVector, Origin, VectorNode, VectorSum
from ucm.language.term_algebra import ScaledSubtracted
from ucm.language.terms import ConvexLoss, Excess, FoldedConcave, Loss, Penalty, SubtractedPenalty
from ucm.language.text import Text, called, code, joined

__all__ = ["to_cvxpy_source"]

_ROWS = {
    "pos": ("Xp", "X[y > 0]  # class +1"),
    "neg": ("Xn", "X[y < 0]  # class -1"),
    "signed": ("Z", "y[:, None] * X  # all samples, times their labels"),
}
_TAKEN = {
    *(
        "X",
        "y",
        "m",
        "w",
        "b",
        "t",
        "u",
        "v",
        "x",
        "z",
        "cp",
        "np",
        "ucm",
        "root",
        "constraints",
        "problem",
        "start",
    ),
    *(
        "objective",
        "tangent",
        "subtracted",
        "added",
        "last",
        "meets",
        "scores",
        "bind",
        "Numbers",
        "_",
    ),
    *(name for name, _ in _ROWS.values()),
}
_OWN = re.compile(r"[a-zA-Z]_[A-Z]\d*")  # names of the operands
_ROOT = [
    "def root(rows):",
    '    """F with F @ F.T the covariance of the rows, divided by their number."""',
    "    centred = (rows - rows.mean(axis=0)) / np.sqrt(len(rows))",
    '    return np.linalg.qr(centred, mode="r").T',
]


class Spelled(Scope):
    """The names of the hyperparameters, and what is derived from them as a formula; where it is none, as a
    number.

    Parameters
    ----------
    taken : names that stand for something else in the source
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.names: dict[str, float] = {}

    def of(self, quantity: Quantity) -> Any:
        if not any(isinstance(s, Tunable) for s in quantity.scalars()):
            return quantity.number
        if quantity.plain():
            return self.spell(quantity.scalars()[0])
        if isinstance(quantity, Size) and quantity.key[:1] == ("-log",):
            return -called("np.log", self.spell(quantity.declared))
        try:
            return quantity.at(self.spell)
        except (TypeError, ValueError):  # a formula that asks for numbers
            return quantity.number

    def spell(self, scalar: Scalar) -> Any:
        """A declared scalar as text; a plain number as it is."""
        if isinstance(scalar, Derived):
            left, right = self.spell(scalar.left), self.spell(scalar.right)
            name = {
                "+": "add",
                "-": "subtract",
                "*": "multiply",
                "/": "true_divide",
                "**": "power",
            }[scalar.operation]
            return joined(name, left, right)
        if not isinstance(scalar, Param):
            return scalar
        name = scalar.name
        while name in self.taken or keyword.iskeyword(name) or _OWN.fullmatch(name):
            name += "_"
        self.names[name] = scalar.value
        return Text(name)


class _Page:
    """The text as it grows.

    Attributes
    ----------
    scope : names of the hyperparameters
    lines : of the constraints
    constants : names and texts of arrays
    needs : names of samples, "m" and "root", as they are used
    """

    def __init__(self) -> None:
        self.scope = Spelled(_TAKEN)
        self.lines: list[str] = []
        self.constants: list[str] = []
        self.needs: dict[str, str] = {}
        self.imports: set[str] = set()
        self.grouped: list[Any] = []  # labels of groups, which number the names of their rows
        self.clouds: dict[Cloud, Text] = {}
        self.share: Text | None = None  # of the operand of a union: all of it stands times this
        self._count = 0

    def letter(self) -> str:
        """The name of the next operand: A, B, ..., Z, A1, ..."""
        turn, place = divmod(self._count, 26)
        self._count += 1
        return chr(ord("A") + place) + (str(turn) if turn else "")

    def rows(self, samples: SampleNode) -> Text:
        """The matrix of the samples."""
        if isinstance(samples, Cloud):
            if samples not in self.clouds:
                self.clouds[samples] = self.constant(f"P_{len(self.clouds)}", samples.points)
            return self.clouds[samples]
        if not isinstance(samples, Samples):
            raise CompositionError(
                f"to_cvxpy_source: expected samples of a class, got {samples!r}; solve with ucm"
            )
        name, text = _ROWS[samples.kind]
        if samples.label is not None:
            self.grouped.append(samples.label)
            matrix, _, comment = text.partition("  #")
            matrix = f"({matrix})" if samples.kind == "signed" else "X"
            text = f"{matrix}[{_chosen(samples)}]  #{comment}, of one group"
            name = f"{name}_{len(set(self.grouped[: self.grouped.index(samples.label)]))}"
        self.needs[name] = f"{name} = {text}"
        return Text(name)

    def classes(self, samples: SampleNode) -> Text | None:
        """The labels of samples of both classes; None for one class."""
        if not isinstance(samples, Samples) or samples.kind != "signed":
            return None
        return Text("y" if samples.label is None else f"y[{_chosen(samples)}]")

    def m(self) -> Text:
        """The number of all samples."""
        self.needs["m"] = "m = len(y)"
        return Text("m")

    def shared(self, x: Any) -> Any:
        """A length, a bound or a vector times the share."""
        return x if self.share is None else joined("multiply", self.share, x)

    def constant(self, name: str, x: Any) -> Text:
        """An array by a name of its own."""
        self.constants.append(f"{name} = {code(x)}")
        return Text(name)

    def say(self, *lines: str) -> None:
        self.lines += lines

    def demand(self, constraints: Iterable[Any]) -> None:
        found = ", ".join(code(c) for c in constraints)
        if found:
            self.say(f"constraints += [{found}]")

    def own(self, node: Node) -> Text:
        """A declaration from JSON, of a class that has no text."""
        module = type(node).__module__
        if module == "__main__":
            raise CompositionError(
                f"to_cvxpy_source: expected classes of a module, got {type(node).__name__} of __main__, "
                "which the text cannot import; define it in a module"
            )
        self.imports |= {"import ucm"} | (
            {f"import {module}"} if module.split(".")[0] != "ucm" else set()
        )
        return Text(f"ucm.from_json({to_json(node)!r})")


def _chosen(samples: Samples) -> str:
    """Which samples they are, of a class or a group."""
    side = {"pos": "y > 0", "neg": "y < 0"}.get(samples.kind)
    own = None if samples.label is None else f"groups == {samples.label!r}"
    return " & ".join(f"({test})" if side and own else test for test in (side, own) if test)


# --- sets: each gives its point ---------------------------------------------------------------------
@functools.singledispatch
def _point(U: Any, page: _Page) -> Any:
    """The point of a set, its constraints on the page; registered by class."""
    k = page.letter()
    text = page.own(U)
    page.imports |= {
        "from ucm.data.bound import bind",
        "from ucm.language.parameter import Numbers",
    }
    page.say(f"# {k} = {_short(U)}: as its class defines it")
    grouped = any(isinstance(x, Samples) and x.label is not None for x in U.walk())
    bound = "bind(X, y, subgroup=groups)" if grouped else "bind(X, y)"
    page.say(f"x_{k}, own = {text}.cvxpy({bound}, Numbers())", "constraints += own", "")
    return Text(f"x_{k}")


def _short(U: Node) -> str:
    """A declaration on a line of a comment, its parameters by name."""
    text = brief(U) if len(repr(U)) > 90 else repr(U)
    for p in U.walk():
        if isinstance(p, Param):
            text = text.replace(repr(p), p.name)
    return text


@_point.register
def _(U: Point, page: _Page) -> Any:
    return page.shared(_vector(U.vector, page))


@_point.register
def _(U: Ball, page: _Page) -> Any:
    k = page.letter()
    dim = U.dimension(None)
    page.say(f"# {k} = {_short(U)}: all that is near to the centre",
             f"u_{k} = cp.Variable({'X.shape[1]' if dim is None else dim})")  # fmt: skip
    _confine(NormBall(U.radius, U.p), Text(f"u_{k}"), None, page)
    middle = page.shared(_vector(U.center, page))
    page.say(f"x_{k} = {code(joined('add', middle, Text(f'u_{k}')))}", "")
    return Text(f"x_{k}")


@_point.register
def _(U: Ellipsoid, page: _Page) -> Any:
    k = page.letter()
    roots = _roots(U.shape, page, k)
    page.say(f"# {k} = {_short(U)}: the centre, and a step of so many standard deviations")
    names = [Text(f"u_{k}" if len(roots) == 1 else f"u_{k}{i + 1}") for i in range(len(roots))]
    step: Any = 0.0
    for j, (F, u) in enumerate(zip(roots, names, strict=True)):
        page.say(f"F_{k}{j + 1 if len(roots) > 1 else ''} = {code(F)}")
        F = Text(f"F_{k}{j + 1 if len(roots) > 1 else ''}")
        page.say(f"{u} = cp.Variable({F}.shape[1])")
        step = joined("add", step, joined("matmul", F, u))
    whole = names[0] if len(names) == 1 else called("cp.hstack", names)
    _confine(NormBall(U.radius), whole, None, page)
    middle = page.shared(_vector(U.center, page))
    page.say(f"x_{k} = {code(joined('add', middle, step))}", "")
    return Text(f"x_{k}")


def _weights(k: str, rows: Text, what: str, page: _Page) -> Text:
    """One weight for each of the rows; the entries of the variable are near 1, as conic solvers need."""
    page.say(f"# {k} = {what}", f"q_{k} = cp.Variable(len({rows})) / len({rows})")
    return Text(f"q_{k}")


@_point.register
def _(U: Hull, page: _Page) -> Any:
    k, rows = page.letter(), page.rows(U.samples)
    sums = "a sum of 1" if page.share is None else f"the sum {page.share}"
    mass = "half of their mass on each class" if "signed" in kinds_of(U.samples) else sums
    q = _weights(k, rows, f"{_short(U)}: weights of the samples with {mass}", page)
    classes = page.classes(U.samples)
    page.demand(_simplex(q, classes, page))
    if U.weights is not None:
        _confine(U.weights, q, classes, page)
    page.say(f"x_{k} = {rows}.T @ q_{k}", "")
    return Text(f"x_{k}")


@_point.register
def _(U: ReducedHull, page: _Page) -> Any:
    k, rows = page.letter(), page.rows(U.samples)
    spelled = page.scope.spell
    cap = (
        2.0 / (page.m() * spelled(U.nu))
        if U.eta is None and U.nu is not None
        else spelled(0.0 if U.eta is None else U.eta)
    )
    q = _weights(k, rows, f"{_short(U)}: weights of the samples, none above a cap", page)
    page.demand([*_simplex(q, None, page), q <= page.shared(cap)])
    page.say(f"x_{k} = {rows}.T @ q_{k}", "")
    return Text(f"x_{k}")


@_point.register
def _(U: Image, page: _Page) -> Any:
    k = page.letter()
    A = page.constant(f"A_{k}", U.A)
    page.say(f"# {k} = {_short(U)}: the image of a domain", f"q_{k} = cp.Variable({A}.shape[1])")
    _confine(U.domain, Text(f"q_{k}"), None, page)
    step = joined("matmul", A, Text(f"q_{k}"))
    middle = page.shared(_vector(U.center, page))
    page.say(f"x_{k} = {code(joined('add', middle, step))}", "")
    return Text(f"x_{k}")


@_point.register
def _(U: Combination, page: _Page) -> Any:
    total: Any = 0.0
    for V, L in U.terms():
        x = _point(V, page)
        if is_number(L):
            x = joined("multiply", page.scope.spell(L), x)
        else:
            x = joined("matmul", page.constant(f"M_{page.letter()}", L), x)
        total = joined("add", total, x)
    return total


@_point.register
def _(U: Intersection, page: _Page) -> Any:
    a, b = _point(U.left, page), _point(U.right, page)
    page.say(f"constraints += [{code(a, 1)} == {code(b, 1)}]  # one point of both", "")
    return a


@_point.register
def _(U: ConvexUnion, page: _Page) -> Any:
    if not all(map(_scales, U.walk())):
        return _point.dispatch(object)(U, page)
    k, outer, total = page.letter(), page.share, 0.0
    sums = called("cp.sum", Text(f"t_{k}")) == (1 if outer is None else outer)
    count = len(U.sets)
    page.say(f"# {k} = a mixture of {count} sets: each times its share, which all its bounds carry")
    page.say(f"t_{k} = cp.Variable({count}, nonneg=True)", f"constraints += [{code(sums)}]", "")
    for g, V in enumerate(U.sets):
        page.share = Text(f"t_{k}[{g}]")
        total = joined("add", total, _point(V, page))
    page.share = outer
    return total


def _scales(node: Any) -> bool:
    """Whether `t U` is U with its bounds times t, as it is written here."""
    if isinstance(node, UncertaintySet):
        return _point.dispatch(type(node)) is not _point.dispatch(object)
    if isinstance(node, NormBall):
        return node.around is None
    plain = (
        Box | CappedSimplex | DomainIntersection | Product | Simplex | WeightedSimplex | SimplexBall
    )
    return isinstance(node, plain) or not isinstance(node, Domain)


# --- vectors and matrices ---------------------------------------------------------------------------
@functools.singledispatch
def _vector(v: VectorNode, page: _Page) -> Any:
    """A vector of feature space; registered by class."""
    raise CompositionError(
        f"to_cvxpy_source: expected a mean, an array or sums of them, got {v!r}; write it as one of these"
    )


@_vector.register
def _(v: Origin, page: _Page) -> Any:
    return 0.0


@_vector.register
def _(v: ConstantVector, page: _Page) -> Any:
    return Text(code(v.entries))


@_vector.register
def _(v: Mean, page: _Page) -> Any:
    return Text(f"{page.rows(v.samples)}.mean(axis=0)")


@_vector.register
def _(v: VectorSum, page: _Page) -> Any:
    total: Any = 0.0
    for c, part in v.terms:
        total = joined("add", total, joined("multiply", c, _vector(part, page)))
    return total


@functools.singledispatch
def _roots(S: MatrixNode, page: _Page, k: str) -> list[Any]:
    """Matrices F_k with `sum F_k F_k'` the matrix; registered by class."""
    raise CompositionError(
        f"to_cvxpy_source: expected covariances, arrays or sums of them, got {S!r}; write it as one of these"
    )


@_roots.register
def _(S: Covariance, page: _Page, k: str) -> list[Any]:
    page.needs["root"] = ""
    return [called("root", page.rows(S.samples))]


@_roots.register
def _(S: ConstantMatrix, page: _Page, k: str) -> list[Any]:
    S_k = page.constant(f"S_{k}{len(page.constants)}", S.entries)
    page.say(f"e, V = np.linalg.eigh({S_k})")
    return [Text("V * np.sqrt(np.maximum(e, 0))", 2)]


@_roots.register
def _(S: MatrixSum, page: _Page, k: str) -> list[Any]:
    found = []
    for c, part in S.terms:
        found += [joined("multiply", float(np.sqrt(c)), F) for F in _roots(part, page, k)]
    return found


# --- domains ----------------------------------------------------------------------------------------
def _simplex(q: Text, classes: Text | None, page: _Page) -> list[Any]:
    if classes is None:
        return [q >= 0, called("cp.sum", q) == page.shared(1)]
    half = page.shared(0.5)
    sides = [called("cp.sum", q[side]) == half for side in (classes > 0, classes < 0)]
    return [q >= 0, *sides]


def _between(domain: Box, q: Text, page: _Page) -> list[Any]:
    """Bounds on the entries, the infinite ones left out."""
    found = []
    for bound, name in ((domain.lower, "greater_equal"), (domain.upper, "less_equal")):
        if isinstance(bound, tuple):
            kept = [k for k, x in enumerate(bound) if np.isfinite(x)]
            if kept:
                found.append(joined(name, q[kept], page.shared(np.array(bound)[kept])))
        elif np.isfinite(value(bound)):
            spelled = page.scope.spell(bound)
            copies = 1.0 if domain.copies is None else domain.copies
            found.append(joined(name, q, page.shared(joined("multiply", spelled, copies))))
    return found


def _confine(domain: Domain, q: Text, classes: Text | None, page: _Page) -> None:
    """Demand that q lies in a domain."""
    if isinstance(domain, DomainIntersection):
        _confine(domain.left, q, classes, page)
        _confine(domain.right, q, classes, page)
    elif isinstance(domain, Simplex):
        page.demand(_simplex(q, classes, page))
    elif isinstance(domain, CappedSimplex):
        caps = page.scope.spell(domain.cap)
        caps = joined("true_divide", caps, q.size) if domain.relative else caps
        up, down = domain.class_weight or (1.0, 1.0)
        if classes is not None and up != down:
            caps = joined("multiply", caps, called("np.where", classes > 0, up, down))
        else:
            caps = joined("multiply", up, caps)
        page.demand([*_simplex(q, classes, page), q <= page.shared(caps)])
    elif isinstance(domain, WeightedSimplex):
        caps = joined("multiply", page.scope.spell(domain.cap), domain.copies)
        page.demand([*_simplex(q, classes, page), q <= page.shared(caps)])
    elif isinstance(domain, Box):
        page.demand(_between(domain, q, page))
    elif isinstance(domain, CutSimplex):
        page.demand(_simplex(q, classes, page))
        _confine(domain.ball(), q, classes, page)
    elif isinstance(domain, Product):
        start = 0
        for part, n in zip(domain.parts, domain.sizes, strict=True):
            end = start + int(n)
            own = None if classes is None else classes[slice(start, end)]
            _confine(part, q[slice(start, end)], own, page)
            start = end
    elif isinstance(domain, CvxpyDomain):
        build = domain.build
        if build.__module__ == "__main__" or build.__qualname__ != build.__name__:
            raise CompositionError(
                f"to_cvxpy_source: expected a function of a module, got {build.__qualname__} of "
                f"{build.__module__}; define it at the top of a module"
            )
        page.imports.add(f"from {build.__module__} import {build.__name__}")
        size = domain.size()
        words = [q] if size is None else [q, page.scope.of(size)]
        page.say(f"constraints += {called(build.__name__, *words)}")
        if domain.simplex:
            page.demand(_simplex(q, classes, page))
    elif type(domain).__module__.startswith("ucm."):
        size = domain.size()
        number = None if size is None else page.shared(page.scope.of(size))
        page.demand(domain.constraints(q, number, classes=None))  # type: ignore[arg-type]
    else:
        given = "None" if classes is None else code(classes)
        page.say(f"constraints += {page.own(domain)}.own_constraints({q}, {given})")


# --- models -----------------------------------------------------------------------------------------
def to_cvxpy_source(model: UncertaintySet | RobustMargin | Objective) -> str:
    """Standalone CVXPY source text of a declaration, as a reader would write it.

    It expects an array X (m, n) of samples and y (m,) of labels -1 and +1, for `pos.group("A")` an array
    `groups` (m,) of their groups too, imports NumPy and CVXPY, and leaves `w` and `objective`, of
    `loss + lam * penalty` `b` too. Of a set it is the point nearest to 0, which is the model where 0 is not
    in the set; of an objective that is not convex it is the loop of DCA.
    Hyperparameters stand at the top by name.

    Parameters
    ----------
    model : uncertainty set, RobustMargin or Objective
        The declaration.

    Returns
    -------
    str
        Python source.

    Raises
    ------
    CompositionError
        No model, or a class or function of one's own that no module holds, so that no text can import it.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.to_cvxpy_source(ucm.Hinge() + ucm.Param("lam", 0.5) * ucm.L2()))
    \"\"\"Hinge() + lam * L2()\"\"\"
    <BLANKLINE>
    import cvxpy as cp
    import numpy as np
    <BLANKLINE>
    lam = 0.5
    <BLANKLINE>
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    t = cp.multiply(y, X @ w + b)  # the margins
    problem = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - t)) + lam * cp.sum_squares(w)))
    problem.solve()
    <BLANKLINE>
    objective, w, b = problem.value, w.value, float(b.value)
    <BLANKLINE>
    """
    page = _Page()
    relative = model.relative_names() if isinstance(model, Node) else ()
    if relative:
        raise CompositionError(
            f"to_cvxpy_source: {', '.join(relative)} of {model!r} is a fraction of the interval of data, "
            "and the text has none; give the numbers, model.settled(solution.params)"
        )
    if isinstance(model, Objective):
        lines = _of_objective(model, page) if model.convex else _of_difference(model, page)
    else:
        model = as_model(model, "to_cvxpy_source")
        lines = _of_set(model, page)
    needs = [line for name, line in page.needs.items() if name != "root"]
    values = [f"{name} = {code(x)}" for name, x in page.scope.names.items()]
    parts = [
        [f'"""{_short(model.set if isinstance(model, RobustMargin) else model)}"""'],
        ["import cvxpy as cp", "import numpy as np", *sorted(page.imports)],
        [*needs, *values, *page.constants],
        ["", *_ROOT, ""] if "root" in page.needs else [],
        lines,
    ]
    text = "\n\n".join("\n".join(part) for part in parts if part)
    return text.replace("\n\n\n\n", "\n\n\n") + "\n"


def _of_set(model: RobustMargin, page: _Page) -> list[str]:
    x = _point(model.set, page)
    q = model.dual
    norm = '"inf"' if q == np.inf else code(q)
    lines = [
        "constraints = []", *page.lines,
        f"x = {code(x)}",
        "z = cp.Variable(x.shape[0])  # the point of U nearest to 0",
        "meets = z == x",
        f"problem = cp.Problem(cp.Minimize(cp.norm(z, {norm})), [meets, *constraints])",
        "problem.solve()", "",
        "objective, w = -problem.value, meets.dual_value",
    ]  # fmt: skip
    p = '"inf"' if model.norm == np.inf else model.norm
    length = f"np.linalg.norm(w, {'np.inf' if model.norm == np.inf else code(p)})"
    return [*lines, f"w = w * np.sign(w @ z.value) / {length}  # the normal of the classifier"]


def _losses(losses: Iterable[ConvexLoss], page: _Page) -> Any:
    total: Any = 0.0
    for loss in losses:
        each = loss.cvxpy(_counted(loss), Coefficient(), page.scope)  # type: ignore[arg-type]
        total = joined("add", total, called("cp.sum", each))
    return total


def _counted(loss: Loss, t: str = "t") -> Text:
    """The margins of the samples that count."""
    return Text(t if loss.counted is None else f"{t}[{_chosen(loss.counted)}]")


def _penalties(penalties: Iterable[Any], page: _Page) -> Any:
    total: Any = 0.0
    for R in penalties:
        total = joined("add", total, R.cvxpy(Text("w"), Coefficient(), page.scope))
    return total


_VARIABLES = [
    "w, b = cp.Variable(X.shape[1]), cp.Variable()",
    "t = cp.multiply(y, X @ w + b)  # the margins",
]


def _of_objective(model: Objective, page: _Page) -> list[str]:
    G, _ = model.dc()
    whole = joined("add", _losses(G.losses, page), _penalties(G.penalties, page))
    return [
        *_VARIABLES,
        f"problem = cp.Problem(cp.Minimize({whole}))",
        "problem.solve()", "",
        "objective, w, b = problem.value, w.value, float(b.value)",
    ]  # fmt: skip


def _of_difference(model: Objective, page: _Page) -> list[str]:
    G, H = model.dc()
    added = joined("add", _losses(G.losses, page), _penalties(G.penalties, page))
    first = joined("add", _losses(G.losses, page), _penalties(_relaxed(model.penalty), page))
    heights, margins, normals = [], [], []
    for loss in H.losses:
        height, slope = _kinked(loss)
        heights.append(height)
        margins.append(slope)
    for R in H.penalties:
        height, slope = _concave(R)
        heights.append(height)
        normals.append(slope)
    in_t, in_w = " + ".join(margins), " + ".join(normals)
    return [
        "",
        "def subtracted(t, w):",
        '    """What is subtracted, itself convex, at the margins t and the normal w."""',
        f"    return {' + '.join(heights)}", "", "",
        "def tangent(t, w):",
        '    """Its slopes in t and in w."""',
        f"    return {in_t or 'np.zeros(len(t))'}, {in_w or 'np.zeros(len(w))'}", "", "",
        *_VARIABLES,
        "u, v = cp.Parameter(X.shape[0]), cp.Parameter(X.shape[1])",
        f"added = {added}",
        f"start = cp.Problem(cp.Minimize({first}))",
        "start.solve()",
        "problem = cp.Problem(cp.Minimize(added - u @ t - v @ w))",
        "objective = np.inf",
        "for _ in range(200):  # DCA: what is subtracted is replaced by its tangent plane",
        "    last, objective = objective, float(added.value) - subtracted(t.value, w.value)",
        "    if last - objective <= 1e-9 * abs(objective):",
        "        break",
        "    u.value, v.value = tangent(t.value, w.value)",
        "    problem.solve()", "",
        "w, b = w.value, float(b.value)",
    ]  # fmt: skip


def _relaxed(penalty: Penalty) -> list[Any]:
    """The convex penalties that DCA starts from."""
    if isinstance(penalty, FoldedConcave):
        return [penalty.relaxed()]
    terms = getattr(penalty, "terms", None)
    if isinstance(terms, tuple):
        return [R for term in terms for R in _relaxed(term)]
    return list(penalty.split()[0])


def _kinked(loss: ConvexLoss) -> tuple[str, str]:
    """The value and the slopes in t of a subtracted loss `c sum max(0, o - t_i)`."""
    c = loss.slope()
    if c is None:
        raise CompositionError(
            f"to_cvxpy_source: expected a subtracted loss with one kink, as that of Ramp, got {loss!r}; "
            "write the loss as such a difference"
        )
    head = "" if c == 1.0 else f"{code(c)} * "
    start, short = code(loss.offset), f"t < {code(loss.offset)}"
    if loss.counted is not None:
        short = f"({short}) & ({_chosen(loss.counted)})"
    return f"{head}np.maximum(0, {start} - {_counted(loss)}).sum()", f"{code(-c)} * ({short})"


@functools.singledispatch
def _concave(R: SubtractedPenalty) -> tuple[str, str]:
    """The value and the slopes in w of a subtracted penalty; registered by class."""
    raise CompositionError(
        f"to_cvxpy_source: expected a subtracted penalty of a FoldedConcave one, got {R!r}; write it as such"
    )


@_concave.register
def _(R: Excess) -> tuple[str, str]:
    s: Any = Text("np.abs(w)")
    steep = float(R.penalty.slope(np.zeros(1))[0])
    height = joined("subtract", joined("multiply", steep, s), R.penalty.profile(s))
    slope = joined("multiply", Text("np.sign(w)"), joined("subtract", steep, R.penalty.slope(s)))
    return f"({height}).sum()", code(slope)


@_concave.register
def _(R: GroupExcess) -> tuple[str, str]:
    groups, r = R.penalty.groups, R.penalty.profile
    steep = float(r.slope(np.zeros(1))[0])
    same = f"np.equal.outer({code(groups)}, {code(groups)})"
    size = Text(f"np.sqrt({same} @ w**2)")  # of the group of every feature
    each = Text(f"{same}.sum(axis=0)")
    lost: Any = joined("subtract", joined("multiply", steep, size), r.profile(size))  # type: ignore[arg-type]
    slope = joined("subtract", steep, r.slope(size))  # type: ignore[arg-type]
    height = joined("true_divide", lost, each)
    return f"({height}).sum()", code(
        joined(
            "true_divide", joined("multiply", Text("w"), slope), Text(f"np.maximum({size}, 1e-300)")
        )
    )


@_concave.register
def _(R: ScaledSubtracted) -> tuple[str, str]:
    height, slope = _concave(R.term)
    c = code(value(R.factor) / value(R.divisor))
    return f"{c} * {height}", f"{c} * ({slope})"
