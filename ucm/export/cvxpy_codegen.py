"""Generator of standalone CVXPY source code for a set or an objective.

The text is a record of the expressions that `cvxpy` of the declaration builds. They are built for two made-up
data sets of different sizes; numbers that differ between the two programs are functions of the counts of
samples, and their text says which.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ucm.data.bound_data import bind
from ucm.data.linear_map import Matrix
from ucm.errors import CompositionError, brief
from ucm.evidence.objective import weights_in
from ucm.export.expression_text import ExpressionPrinter, Text, code
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.parameter import Expression, Param, Scalar, Scope, Size, value
from ucm.language.penalties.cardinality import FeatureCount
from ucm.language.penalties.constraints import LinearConstraint
from ucm.language.penalties.quadratic import evaluated
from ucm.language.per_sample import quantities_of
from ucm.language.robust import RobustMargin, as_model
from ucm.language.robust_samples import Perturbations, Robust
from ucm.language.sample_sets import FeatureDeletion, PerSampleImage
from ucm.language.statistics.affine import VectorNode
from ucm.language.statistics.samples import Points, PooledMean, SampleNode, Samples
from ucm.language.terms import (
    ConvexLoss,
    FoldedExcess,
    JointLoss,
    Penalty,
    ProximalPenalty,
    SubtractedPart,
    loss_cvxpy,
)
from ucm.ranges.generalised_nu_svm import GeneralisedNuSVM

_SIZES = ((53, 31, 5), (61, 47, 7))  # samples of class +1 and -1, and features, of the two data sets
_SPECIAL = ["from scipy.special import ndtri"]
_NAME = re.compile(r"\b[^\W\d]\w*")
_WORDS = (
    "X y w b t x z cp np ucm groups root constraints problem start objective tangent subtracted added last "
    "meets slope_t slope_w pos neg signed ndtri _"
)
_RESERVED = {*re.findall(r"\w+", _WORDS), *keyword.kwlist, *dir(builtins)}
_ROOT = [
    "def root(rows):",
    '    """F with F @ F.T the covariance of the rows, divided by their number."""',
    "    centred = (rows - rows.mean(axis=0)) / np.sqrt(len(rows))",
    '    return np.linalg.qr(centred, mode="r").T',
]


class _ByName(Scope):
    """The scope that records for every `cvxpy.Parameter`, by its id, the formula of its hyperparameter."""

    scaled = False

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.texts: dict[int, Text] = {}

    def of(self, x: Scalar | Size, signed: bool = False) -> float | Text | cp.Expression:
        size = Size.of(x)
        text = self._source(size)
        if not isinstance(text, Text):
            return text
        p = cp.Parameter(value=size.number, nonneg=not (signed or x is size))
        self.texts[p.id] = text
        return p

    def _source(self, size: Size) -> float | Text:
        """Return the text of a size; its number if it is a plain one or its formula rejects `Text`."""
        x = size.declared
        if not isinstance(x, Expression) and size.derived is float:
            return x
        text = Text(
            _NAME.sub(lambda name: self.names[name[0]], x.name) if isinstance(x, Expression) else code(x)
        )
        try:
            return text if size.derived is float else size.derived(text)  # type: ignore[arg-type]
        except TypeError:
            return size.number


class _Example:
    """A random data set for a model, with the source text of arrays computed from this data set.

    `counts` are the numbers of samples and of features by their text; `definitions` are the texts that
    define the samples, and `values` the values of all names.
    """

    def __init__(self, model: Node, seed: int) -> None:
        rng = np.random.default_rng(seed)
        positive, negative, n = _SIZES[seed]
        n, m = fitting_dimension(model, n), positive + negative
        y = rng.permutation(np.repeat([1.0, -1.0], [positive, negative]))
        sides = list(dict.fromkeys(model.nodes_of_type(Samples)))
        labels = [*dict.fromkeys(s.label for s in sides if s.label is not None), None]
        groups = np.array([labels[k] for k in rng.integers(len(labels), size=m)], dtype=object)
        groups[groups == None] = "other"  # noqa: E711
        X = rng.standard_normal((m, n))
        quantities = {name: rng.random(m) for name in sorted(quantities_of(model))}
        self.data = bind(X, y, subgroup=groups if len(labels) > 1 else None, per_sample=quantities)
        self.counts: dict[str, int] = {"len(y)": m, "X.shape[1]": n}
        self.definitions: dict[str, str] = {}
        self.values: dict[str, Any] = {"np": np, "X": X, "y": y, "groups": groups, **quantities}
        exec("\n".join(_ROOT), self.values)
        self.arrays: list[tuple[Matrix, Text]] = []
        self._record("X", "y", *quantities)
        if model.nodes_of_type(Robust):
            sizes = ("1.0", *quantities)
            self._record(*(f"np.where(y {side} 0, {size}, 0.0)" for size in sizes for side in "><"))
        if model.nodes_of_type(FeatureDeletion):
            self._record("y[:, None] * X", "np.ones((1, X.shape[1]))")
        names: dict[SampleNode, str] = {}
        for s in sides:
            names[s] = self._name_samples(s)
        for k, s in enumerate(dict.fromkeys(model.nodes_of_type(Points))):
            if s.weights is not None:  # the text of a mean has no weights
                raise CompositionError(
                    f"to_cvxpy_source: expected points without weights, got {brief(s)}; repeat points, or "
                    "use plan.reference(), a CVXPY problem for given data"
                )
            names[s] = f"P_{k}"
            self._define(names[s], code(s.points))
        for v in model.nodes_of_type(VectorNode):
            if v.nodes_of_type(SampleNode):
                text = repr(v)
                for mean in v.nodes_of_type(PooledMean):
                    parts = f"{names[mean.first]}, {names[mean.second]}"
                    text = text.replace(repr(mean), f"np.vstack([{parts}]).mean(axis=0)")
                for s, name in sorted(names.items(), key=lambda pair: -len(repr(pair[0]))):
                    text = text.replace(f"{s!r}.mean", f"{name}.mean(axis=0)")
                self.arrays.append((v.evaluate(self.data), Text(text)))
        for R in model.nodes_of_type(LinearConstraint):
            if R.of_statistics:
                G, _, rows, signs = evaluated(R, self.data).sides  # type: ignore[attr-defined]
                texts = (sign * self.text(R.A[k].evaluate(self.data)) for k, sign in zip(rows, signs))
                self.arrays.append((G, Text("np.stack")(list(texts))))

    def _record(self, *texts: str) -> None:
        self.arrays += [(eval(text, self.values), Text(text)) for text in texts]

    def _define(self, name: str, text: str) -> None:
        """Define the rows of samples, and record them with the root of their covariance."""
        self.definitions[name], self.values[name] = text, eval(text, self.values)
        self._record(name, f"{name}.T", f"root({name})")

    def _name_samples(self, s: Samples) -> str:
        name = s.kind if s.label is None else s.kind + re.sub(r"\W", "_", f"_{s.label}", flags=re.ASCII)
        while name in self.definitions:
            name += "_"
        tests = [{"pos": "y > 0", "neg": "y < 0"}.get(s.kind)]
        tests.append(None if s.label is None else f"groups == {code(s.label)}")
        chosen = " & ".join(f"({test})" if all(tests) else test for test in tests if test)
        signed_rows = "(y[:, None] * X)" if s.kind == "signed" else "X"
        self._define(name, f"{signed_rows}[{chosen}]" if chosen else "y[:, None] * X")
        self.counts[f"len({name})"] = len(self.values[name])
        if chosen:
            self.arrays.append((np.flatnonzero(eval(chosen, self.values)), Text(chosen)))
            self._record(f"({chosen}).astype(float)")
        if s.kind == "signed":
            labels = f"y[{chosen}]" if chosen else "y"
            self._record(labels, f"({labels} > 0).astype(float)", f"({labels} < 0).astype(float)")
        return name

    def text(self, x: Matrix) -> Text | None:
        """Return the text of a multiple of a named array or of a vector constant by class, or None."""
        x = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
        for array, text in self.arrays:
            if array.shape == x.shape and x.any():
                at = np.unravel_index(np.argmax(np.abs(array)), x.shape)
                factor = float(x[at] / array[at])
                if x.size == 1 and len(f"{factor:.15g}") > 8:  # any number is a multiple of another
                    continue
                if np.allclose(x, factor * array, rtol=1e-9, atol=1e-12 * np.abs(x).max()):
                    return text if abs(factor - 1.0) < 1e-9 else float(f"{factor:.15g}") * text
        samples = x.size in self.counts.values() and x.size != self.data.n
        if x.ndim != 1 or (x.any() and not samples):
            return None
        if (x == x[0]).all():
            return Text(code(x[0]))
        if x.size == self.data.m:
            up, down = x[self.data.y > 0.0], x[self.data.y < 0.0]
            if (up == up[0]).all() and (down == down[0]).all():
                return Text("np.where")(Text("y") > 0, up[0], down[0])
        return None


def fitting_dimension(model: Node, n: int) -> int:
    """Return n, or the least number of features up to 10,000 that the model accepts if n is refused."""
    for k in (n, *range(1, 10_001)):
        try:
            for node in model.nodes_of_type(UncertaintySet):
                node.dimension(k)
            for node in (*model.nodes_of_type(Penalty), *model.nodes_of_type(Robust)):
                if not (isinstance(node, Penalty) and node.nodes_of_type(SampleNode)):
                    node.check_features(k)
        except CompositionError:
            continue
        return k
    return n


def to_cvxpy_source(model: UncertaintySet | RobustMargin | Objective) -> str:
    """Return the source code of a standalone CVXPY program for a set or an objective.

    The program expects an array X (m, n) of samples and y (m,) of labels -1 and +1, for `pos.group("A")` an
    array `groups` (m,) of their groups too, and quantities of the samples by their names. It imports NumPy
    and CVXPY, for a confidence `level` SciPy, and leaves `w` and `objective`, for `loss + lam * penalty` also
    `b`, for a generalised nu-SVM `b` and `rho`. For a set it computes the point nearest to 0, which is the
    model where 0 is not in the set; for an objective that is not convex it is the loop of DCA.
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
        No model; a set whose expressions depend on the data in another way than through counts, rows, means
        and covariances of samples; or a subtracted function of a custom class that branches on numbers.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.to_cvxpy_source(ucm.Hinge() + ucm.Param("lam", 0.5) * ucm.L2()))
    'Hinge() + lam * L2()'
    <BLANKLINE>
    import cvxpy as cp
    import numpy as np
    <BLANKLINE>
    lam = 0.5
    <BLANKLINE>
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    t = cp.multiply(y, X @ w + b)  # the margins
    problem = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - t)) + lam * cp.sum_squares(w)))
    problem.solve(solver='CLARABEL')
    <BLANKLINE>
    objective, w, b = problem.value, w.value, float(b.value)
    <BLANKLINE>
    """
    if not isinstance(model, Objective):
        model = as_model(model, "to_cvxpy_source")
    if model.relative_names():
        raise CompositionError(
            f"to_cvxpy_source: {', '.join(model.relative_names())} of {model!r} is a fraction of the "
            "interval of data, and the text has none; give the numbers, model.substitute(solution.params)"
        )
    for R in (*model.nodes_of_type(FeatureCount), *model.nodes_of_type(PerSampleImage)):
        raise CompositionError(
            "to_cvxpy_source: expected terms without further variables for each feature, or matrices of each "
            f"sample, got {R!r}; use plan.reference(), a CVXPY problem for given data: of a cardinality the "
            "convex relaxation, or the problem over the support of a solution"
        )
    first, second = (_Program(model, _Example(model, k)) for k in (0, 1))
    return _generalised(model, first, second)


class _Program:
    """The CVXPY source code of a model for one example data set."""

    def __init__(self, model: RobustMargin | Objective, example: _Example) -> None:
        reserved = {
            *_RESERVED,
            *quantities_of(model),
            *example.definitions,
            *(["rho"] if model.by_lam else []),
        }
        names: dict[str, str] = {}
        for name in model.params():
            word = unicodedata.normalize("NFKC", name)  # as Python reads names
            while word in reserved:
                word += "_"
            names[name] = word
            reserved.add(word)
        self.example, self.scope = example, _ByName(names)
        self.printer = ExpressionPrinter(lambda p: self.scope.texts[p.id], example.text, reserved)
        match model:
            case Objective():
                declared, body = model, self._of_objective(model)
            case RobustMargin():
                declared = model.set
                body = self._of_generalised_nu_svm(model) if model.by_lam else self._of_set(model)
        used = set(re.findall(r"\w+", "\n".join(body)))
        if model.nodes_of_type(JointLoss):  # their sizes are counts of samples
            used |= example.definitions.keys()
        parts = [
            [repr(_short(declared))],
            ["import cvxpy as cp", "import numpy as np", *_SPECIAL[: "ndtri" in used]],
            [
                *(f"{name} = {text}" for name, text in example.definitions.items() if name in used),
                *(f"{names[name]} = {code(x)}" for name, x in model.params().items()),
            ],
            ["", *_ROOT, ""] if "root" in used else [],
            body,
        ]
        text = "\n\n".join("\n".join(part) for part in parts if part)
        self.text = text.replace("\n\n\n\n", "\n\n\n") + "\n"

    def _of_set(self, model: RobustMargin) -> list[str]:
        x, constraints = model.set.cvxpy(self.example.data, self.scope)
        texts = [self.printer.text(x), *map(self.printer.text, constraints)]
        point = "np.zeros(X.shape[1])" if str(texts[0]) == "0" else texts[0]
        q = '"inf"' if model.dual == np.inf else code(model.dual)
        return [
            *self.printer.definitions,
            f"x = {point}  # a point of U",
            "constraints = [", *(f"    {text}," for text in texts[1:]), "]",
            "z = cp.Variable(x.shape[0])  # the point of U nearest to 0",
            "meets = z == x",
            f"problem = cp.Problem(cp.Minimize(cp.norm(z, {q})), [meets, *constraints])",
            _SOLVE, "",
            "objective, w = -problem.value, meets.dual_value",
            f"w = w * np.sign(w @ z.value) / np.linalg.norm(w, {code(model.norm)})"
            "  # the normal of the classifier",
        ]  # fmt: skip

    def _of_generalised_nu_svm(self, model: RobustMargin) -> list[str]:
        total, (_, bound) = GeneralisedNuSVM(model, self.example.data).expressions(self.scope, 1.0)
        self.printer.names |= {v.id: Text(v.name()) for v in (*total.variables(), *bound.variables())}
        text = self.printer.text(total)
        return [
            *_VARIABLES, "rho = cp.Variable()", *self.printer.definitions,
            f"problem = cp.Problem(cp.Minimize({text}), [{self.printer.text(bound)}])",
            _SOLVE, "",
            "objective, w, b, rho = problem.value, w.value, float(b.value), float(rho.value)",
        ]  # fmt: skip

    def _of_objective(self, model: Objective) -> list[str]:
        """Return the lines for one convex problem, or for the DCA loop if the objective is not convex."""
        if "flips" in model.needs:
            raise CompositionError(
                f"to_cvxpy_source: expected a loss and a penalty of their own, got {model!r}; use "
                "plan.reference(), a CVXPY problem for given data"
            )
        data, s = self.example.data, code(model.scaling)
        model = replace(model, penalty=evaluated(model.penalty, data))
        variables, n, w_and_b = _VARIABLES, data.n, "w.value, float(b.value)"
        if model.penalised:
            model, n, w_and_b = model.with_column(n), n + 1, f"w.value[:-1], float({s} * w.value[-1])"
            variables = [
                "w = cp.Variable(X.shape[1] + 1)  # the last weight is that of b",
                f"t = cp.multiply(y, X @ w[:-1] + {s} * w[-1])  # the margins",
            ]
        elif model.intercept is None:
            variables, w_and_b = _WITHOUT_B, "w.value, 0.0"
        if model.offset is not None:
            with_offset = f" + {model.offset.name})  # the margins"
            variables = [line.replace(")  # the margins", with_offset) for line in variables]
        G, H = model.dc()
        t, w = cp.Variable(data.m), cp.Variable(n)
        self.printer.names |= {t.id: Text("t"), w.id: Text("w")}
        worst = []
        if model.needs & {"perturbations", "shapes"}:
            x = w[:-1] if n > data.n else w
            heights = str(self.printer.text(Perturbations.of(model, data).cvxpy(x, self.scope)))
            worst = [f"t = t - ({heights})  # of the worst points"]
        losses = [loss_cvxpy(loss, t, weights_in(loss, data), self.scope) for loss in G.losses]

        def total(penalties: Iterable[ProximalPenalty]) -> str:
            terms = [*losses, *(R.cvxpy(w, 1.0, self.scope) for R in penalties)]
            return str(functools.reduce(operator.add, map(self.printer.text, terms)))

        joint = [self._joint(loss, t) for loss in G.joint]
        losses += [height for height, _ in joint]
        texts = [f"    {text}," for _, constraints in joint for text in constraints]
        inside = ["constraints = [", *texts, "]"] if joint else []
        given = ", constraints" if joint else ""
        added = total(G.penalties)
        if model.convex:
            return [
                *variables, *self.printer.definitions, *worst, *inside,
                f"problem = cp.Problem(cp.Minimize({added}){given})",
                _SOLVE, "",
                f"objective, w, b = problem.value, {w_and_b}",
            ]  # fmt: skip
        start = total(model.penalty.surrogates())
        in_t, in_w = (
            [self._subtracted_loss(h) for h in H.losses],
            [_subtracted_penalty(h, data.n) for h in H.penalties],
        )
        values = " + ".join(str(height) for height, _ in (*in_t, *in_w))
        slopes = [" + ".join(str(slope) for _, slope in terms) for terms in (in_t, in_w)]
        return [
            "",
            "def subtracted(t, w):",
            '    """The subtracted convex function at the margins t and the normal w."""',
            f"    return {values}", "", "",
            "def tangent(t, w):",
            '    """Its slopes in t and in w."""',
            f"    return {slopes[0] or 'np.zeros(len(t))'}, {slopes[1] or 'np.zeros(len(w))'}", "", "",
            *variables, *self.printer.definitions, *worst, *inside,
            "slope_t, slope_w = cp.Parameter(X.shape[0]), cp.Parameter(w.size)",
            f"added = {added}",
            f"start = cp.Problem(cp.Minimize({start}){given})",
            _SOLVE.replace("problem", "start"),
            f"problem = cp.Problem(cp.Minimize(added - slope_t @ t - slope_w @ w){given})",
            "objective = np.inf",
            "for _ in range(200):  # DCA: the subtracted function is replaced by its tangent plane",
            "    last, objective = objective, float(added.value) - subtracted(t.value, w.value)",
            "    if last - objective <= 1e-9 * abs(objective):",
            "        break",
            "    slope_t.value, slope_w.value = tangent(t.value, w.value)",
            f"    {_SOLVE}", "",
            f"w, b = {w_and_b}",
        ]  # fmt: skip

    def _joint(self, joint: JointLoss, t: cp.Variable) -> tuple[cp.Variable, list[str]]:
        """Return a variable that stands for a joint loss, and the texts of its constraints.

        It bounds the support function of the weights q at a bound s of the losses, which CVXPY dualises.
        """
        data, printer = self.example.data, self.printer
        means = joint.means(lambda rows: joint.loss.cvxpy(t[rows], 1.0, self.scope), data)
        q, inside = joint.weights_cvxpy(data, self.scope)
        s, worst = cp.Variable(means.shape[0], name="s"), cp.Variable(name="worst")
        texts = [str(printer.text(e)) for e in (s >= means, worst, q, s)]
        weights = ", ".join(str(printer.text(c)) for c in inside)
        if re.search(r"cp\.(pnorm|power)\(", weights):
            raise CompositionError(
                f"to_cvxpy_source: expected weights with a norm 1, 2 or inf, got {brief(joint)}, whose "
                "support function CVXPY does not write; use plan.reference(), a CVXPY problem for given data"
            )
        return worst, [texts[0], f"{texts[1]} >= cp.suppfunc({texts[2]}, [{weights}])({texts[3]})"]

    def _subtracted_loss(self, loss: ConvexLoss) -> tuple[Text, Text]:
        """Return the source texts of the sum of a subtracted loss and of its subgradient in the margins t."""
        rows = None if loss.counted is None else self.example.text(loss.counted.rows(self.example.data))
        t: Any = Text("t")
        c = loss.slope()
        margin = t if rows is None else t[rows]
        if c is None:
            height, slope = _formulas(
                loss, lambda: (loss.each(margin).sum(), -loss.gradient(loss.offset - t))
            )
        else:
            height = (c * np.maximum(0, loss.offset - margin)).sum()
            slope = -c * (t < loss.offset).astype(float)
        return height, slope if rows is None else Text("np.where")(rows, slope, 0)


def _subtracted_penalty(h: SubtractedPart, n: int) -> tuple[Text, Text]:
    """Return the source texts of a subtracted penalty of n weights and of its subgradient in w."""
    if not isinstance(h, FoldedExcess):
        raise CompositionError(
            f"to_cvxpy_source: expected folded concave penalties, got {type(h).__name__}; use "
            "plan.reference(), a CVXPY problem for given data"
        )
    w: Any = Text("w")
    size, unit, spread = np.abs(w), np.sign(w), lambda x: x
    if not h.coordinatewise:  # lengths of groups of weights
        groups = h.penalty.spread(np.arange(1.0 * h.penalty.lengths(np.zeros(n)).size)).astype(int)
        size, spread = np.sqrt(np.bincount(groups, w**2)), operator.itemgetter(groups)
        unit = w / spread(np.maximum(size, 1e-300))
    steep = float(h.penalty.slope(np.zeros(1))[0])

    def texts() -> tuple[object, object]:
        slope = unit * spread(steep - h.penalty.slope(size))
        return h.each(size).sum(), value(h.factor) * slope

    return _formulas(h.penalty, texts)


def _formulas(term: Node, texts: Callable[[], tuple[object, object]]) -> tuple[Text, Text]:
    """Return the source of a term and its slopes by its formulas on `Text`; none may branch on numbers."""
    try:
        height, slope = texts()
    except TypeError:
        height = slope = None
    if not (isinstance(height, Text) and isinstance(slope, Text)):
        raise CompositionError(
            f"to_cvxpy_source: expected formulas of NumPy without branches, got {type(term).__name__}, whose "
            "subtracted part asks for numbers; write np.where in place of if"
        )
    return height, slope


_SOLVE = "problem.solve(solver='CLARABEL')"  # which is always installed
_VARIABLES = ["w, b = cp.Variable(X.shape[1]), cp.Variable()", "t = cp.multiply(y, X @ w + b)  # the margins"]
_WITHOUT_B = ["w = cp.Variable(X.shape[1])", "t = cp.multiply(y, X @ w)  # the margins"]


def _short(U: Node) -> str:
    """Return a one-line representation of a set or an objective, with names in place of `Param(...)`."""
    text = brief(U) if len(repr(U)) > 90 else repr(U)
    for p in U.nodes_of_type(Param):
        text = text.replace(repr(p), p.name)
    return text


# --- the common text of two programs ----------------------------------------------------------------
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def _generalised(model: Node, first: _Program, second: _Program) -> str:
    """Return one source text for both programs: differing numbers become functions of the sample counts."""
    a, b = _NUMBER.split(first.text), _NUMBER.split(second.text)
    counts = [(Text(k), c, second.example.counts[k]) for k, c in first.example.counts.items()]
    same = len(a) == len(b) and a[::2] == b[::2]
    numbers = [x if x == y else _function_of(float(x), float(y), counts) for x, y in zip(a[1::2], b[1::2])]
    if not same or None in numbers:
        raise CompositionError(
            f"to_cvxpy_source: expected expressions of counts, rows, means and covariances of samples, got "
            f"others in {brief(model)}; use plan.reference(), which is a CVXPY problem for given data"
        )
    a[1::2] = numbers
    return "".join(a)


def _function_of(x: float, y: float, counts: list[tuple[Text, int, int]]) -> str | None:
    """Return the text of a function `k count^p` with the values x and y on both data sets, or None."""
    for p in (1.0, -1.0, 0.5, -0.5):
        for count, c, d in counts:
            k = x / c**p
            if abs(y / d**p - k) <= 1e-12 * k:
                power = count if abs(p) == 1.0 else Text("np.sqrt")(count)
                factor = float(f"{k:.13g}")
                text = str(factor * power if p > 0.0 else factor / power)
                return f"({text})" if " " in text else text
    return None
