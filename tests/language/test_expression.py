"""Declarations as values: immutable, comparable, printable, and the same after every journey."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
from catalogue import DOMAINS, LOSSES, OBJECTIVES, OTHER_LOSSES, PENALTIES, SETS
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix

import ucm
import ucm.language.domains
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.errors import CompositionError
from ucm.language.domains.cvxpy_domain import CvxpyDomain
from ucm.language.node import LATEX, Node
from ucm.language.parameter import Scalar
from ucm.language.penalties.epigraph import Epigraph, LastWeight, OfFirst
from ucm.language.problem import loss_dual, problem_latex
from ucm.language.robust_samples import RootNorm
from ucm.language.sets import Intersection, LinearCombination
from ucm.language.terms import JointLoss

MODELS = [
    ucm.models.nu_svm(0.3),
    ucm.models.mm_mpm(0.5),
    ucm.models.mm_fda(0.05),
    ucm.models.l2_nu_svm(0.4),
    ucm.models.biased_l2_nu_svm(0.5, 0.6),
    ucm.models.kl_svm(0.5),
    ucm.models.coherent_mm_mpm(0.7),
    ucm.models.coherent_mm_fda(0.7),
    ucm.RobustMargin(ucm.Hull(pos) - ucm.Hull(neg), norm=inf),
    ucm.RobustMargin(ucm.Hull(signed), norm=1.5),
]
STATISTICS = [
    pos.mean - neg.mean,
    -pos.mean,
    2 * pos.mean / 3 + np.array([0.1, 0.2]) - [0.5, 1 / 3],
    np.array([1.0, 2.0]) - signed.mean,
    0.5 * pos.cov + neg.cov,
    pos.cov + 0.1 * np.eye(2) + np.eye(2),
    signed.cov / 7,
]
NODES = [*DOMAINS, *LOSSES, *SETS, *MODELS, *STATISTICS, pos, neg, signed]
NAMES: dict[str, Any] = {
    **{name: getattr(ucm, name) for name in ucm.__all__},
    "csr_matrix": csr_matrix,
    "inf": inf,
}
each = pytest.mark.parametrize("node", NODES, ids=repr)


def combined(*parts: tuple[Any, Any]) -> LinearCombination:
    """The combination of these pairs of a set and its factor."""
    return LinearCombination(tuple((L, U) for U, L in parts))


class Slab(ucm.extend.Domain):
    """A reader's own domain, with a field of every kind."""

    bound: Scalar
    weights: np.ndarray
    parts: tuple[ucm.extend.Domain, ...] = ()
    word: str = "plain"

    def violation(self, q: Any) -> float:
        return 0.0

    def support(self, g: Any) -> Any:
        raise NotImplementedError

    center = cvxpy = support  # type: ignore[assignment]

    def formula(self, notation: Any) -> str:
        return notation.scalar(self.bound) + notation.array(self.weights)


SLAB = Slab(Param("b", inf), np.array([[1.0, -0.0], [2.5, 1e-300]]), (ucm.Simplex(), ucm.NormBall(2)))


# --- identity -----------------------------------------------------------------------------------
@each
def test_a_node_is_immutable(node: Any) -> None:
    for f in dataclasses.fields(node):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(node, f.name, 1.0)
        x = getattr(node, f.name)
        if isinstance(x, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                x[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        del node.anything


def test_a_declaration_keeps_its_own_copy_of_an_array() -> None:
    v, M, S = np.array([1.0, 2.0]), np.eye(2), csr_matrix(np.eye(2))
    U = M @ ucm.Ball(v, 1) + S @ ucm.Point(v)
    before = copy.deepcopy(ucm.to_json(U))
    v[0], M[0, 0], S.data[0] = 9.0, 9.0, 9.0
    assert ucm.to_json(U) == before
    assert v.flags.writeable and M.flags.writeable and S.data.flags.writeable


class Readings(Node):
    """Fields whose annotations admit what can change."""

    of_array: np.ndarray
    of_object: object = None
    of_tuple: tuple = ()
    count: int = 0

    def formula(self, notation: Any) -> str:
        return "readings"


def test_fields_of_arrays_and_objects_are_immutable() -> None:
    v = np.array([1, 2])
    node = Readings(v, [3, 4], (v, [5]), 2**60 + 1)
    assert hash(node) == hash(Readings(v + 0.0, [3, 4], (v, [5]), 2**60 + 1))
    v[0] = 9
    fields = f"[1.0, 2.0], of_object=[3.0, 4.0], of_tuple=([1.0, 2.0], [5.0]), count={2**60 + 1}"
    assert repr(node) == f"Readings({fields})"
    with pytest.raises(ValueError, match="read-only"):
        node.of_array[0] = 9.0
    for wrong in (np.array([np.nan]), np.array([1j])):
        with pytest.raises(CompositionError, match="Readings: of_array"):
            Readings(wrong)
    with pytest.raises(CompositionError, match="Readings: of_object"):
        Readings(v, {})


class Unknown(Node):
    """An annotation that only a type checker can read."""

    size: float
    other: Absent | None = None  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    def formula(self, notation: Any) -> str:
        return "unknown"


def test_a_name_that_only_a_type_checker_knows_admits_all() -> None:
    assert type(Unknown(1).size) is float and Unknown(1, "a").other == "a"  # type: ignore[call-arg]
    with pytest.raises(CompositionError, match="Unknown: size: expected a plain number"):
        Unknown("a")  # type: ignore[arg-type]


@each
def test_journeys_end_at_an_equal_node(node: Any) -> None:
    assert copy.copy(node) is node and copy.deepcopy(node) is node
    assert copy.deepcopy([node, {"a": node}])[1]["a"] is node
    for again in (
        pickle.loads(pickle.dumps(node)),
        ucm.from_json(ucm.to_json(node)),
        ucm.from_json(ucm.to_json(node, indent=2)),
        node.with_params(),
        node.with_params(**node.params()),
    ):
        assert again == node and hash(again) == hash(node) and type(again) is type(node)
        assert repr(again) == repr(node) and str(again) == str(node)


@each
def test_repr_is_source_text(node: Node) -> None:
    text = repr(node)
    assert "\n" not in text
    again = eval(text, NAMES.copy())
    assert again == node, f"{text} reads back as {again!r}"


def test_the_pickle_of_a_version_with_other_fields_is_refused() -> None:
    node = ucm.Hinge()
    for state in ({**node.__getstate__(), "more": 1}, {}):
        with pytest.raises(
            CompositionError, match=f"not one of version {ucm.__version__} of ucm-classifiers"
        ):
            object.__new__(type(node)).__setstate__(state)


def test_messages_cut_long_arrays() -> None:
    with pytest.raises(ucm.CompositionError) as error:
        _ = np.ones((40, 30)) @ ucm.Ball(np.arange(31.0), 1.0)
    text = str(error.value)
    assert text.startswith("expected a matrix with 31 columns") and len(text) < 300
    with pytest.raises(ucm.CompositionError) as error:
        _ = ucm.Ball(np.arange(31.0), 1.0) * np.ones(2)
    assert "Ball([0.0, 1.0, 2.0, ..., 30.0], 1)" in str(error.value)
    with pytest.raises(ucm.CompositionError, match=r"got \[1.0, -2.0, 3.0, 4.0\]"):
        ucm.L1(weights=[1.0, -2.0, 3.0, 4.0])


def test_a_difference_is_not_written_as_an_erosion() -> None:
    U = ucm.Hull(pos) + ucm.Ball(0, 1) - (ucm.Hull(neg) - ucm.Point([1.0]))
    assert " - " in str(U) and "⊖" not in str(U) and "⊕" in str(U)
    assert "ominus" not in U._repr_latex_() and " - " in U._repr_latex_()


def test_repr_keeps_every_digit_and_the_entries_of_short_arrays() -> None:
    assert repr(ucm.Ball([1 / 3, 2], Param("r", 0.1 + 0.2))) == (
        "Ball([0.3333333333333333, 2.0], Param('r', 0.30000000000000004))"
    )
    M = np.random.default_rng(0).standard_normal((4, 25))
    names = {**NAMES, "csr_matrix": sparse.csr_matrix}
    for node in (
        ucm.Point(np.arange(100.0)),
        M @ ucm.Hull(pos),
        sparse.csr_matrix(M) @ ucm.Hull(pos),
        ucm.L1(weights=np.arange(1.0, 100.0)),
        ucm.Ellipsoid(np.zeros(4), M @ M.T, 1.0),
    ):
        assert "..." not in repr(node) and eval(repr(node), names) == node
    assert repr(ucm.Point(np.arange(1000.0))) == "Point([ 0., 1., ..., 998., 999.])"
    with np.printoptions(precision=2):
        assert repr(ucm.Point([1 / 3])) == "Point([0.3333333333333333])"


@each
def test_formulas_name_every_parameter(node: Node) -> None:
    text, latex = str(node), node._repr_latex_()
    assert text and "\\" not in text and "None" not in text and "object at" not in text
    assert latex.startswith("$") and latex.endswith("$") and latex.count("$") == 2
    assert latex.isascii(), latex
    for left, right in ("()", "[]", "{}"):
        assert text.count(left) == text.count(right)
    plain = latex.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
    assert latex.count(r"\left") == latex.count(r"\right")
    for name in node.params():
        assert f"{LATEX.symbol(name)} = " in latex


def test_different_declarations_are_unequal() -> None:
    assert len({*NODES}) == len(NODES)
    near = [
        (ucm.Ball([1.0], 1), ucm.Ball([1.0], 1.0000000000000002)),
        (ucm.Ball([1.0], 1), ucm.Ball([1.0], 1, p=1)),
        (ucm.Ball([1.0], 1), ucm.Ball([1.0], Param("r", 1))),
        (ucm.Point([1.0, 2.0]), ucm.Point([2.0, 1.0])),
        (ucm.Hull(pos), ucm.Hull(neg)),
        (ucm.Hull(pos) + ucm.Hull(neg), ucm.Hull(neg) + ucm.Hull(pos)),
        ([[1.0, 2.0]] @ ucm.Ball([0, 0], 1), [[1.0], [2.0]] @ ucm.Ball([0], 1)),
        (ucm.Hull(pos), pos),
        (
            ucm.AffineImage(np.eye(2), ucm.Simplex()),
            ucm.AffineImage(csr_matrix(np.eye(2)), ucm.Simplex()),
        ),
    ]
    for a, b in near:
        assert a != b and b != a
    assert ucm.Hull(pos) != "Hull(pos)" and ucm.Hull(pos) is not None


def test_equality_is_by_content_of_arrays() -> None:
    a = np.asfortranarray([[1.0, 2.0], [3.0, 0.0]])
    same = [
        a, a.astype(np.float32), a.astype(int), a.tolist(), np.ascontiguousarray(a), a[:, ::-1][:, ::-1],
        [[1, 2], [3, -0.0]],
    ]  # fmt: skip
    nodes = [ucm.AffineImage(x, ucm.Simplex()) for x in same]
    assert len(set(nodes)) == 1
    thin = [
        csr_matrix(a), csr_matrix(a).tocsc(), csr_matrix(a).tocoo(), sparse.csr_array(a),
        csr_matrix(([1.0, 1.0, 1.0, 3.0], [1, 0, 1, 0], [0, 3, 4]), shape=(2, 2)),  # unsorted, twice
        csr_matrix(([1.0, 2.0, 3.0, 0.0], [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2)),  # a stored zero
    ]  # fmt: skip
    assert len({ucm.AffineImage(x, ucm.Simplex()) for x in thin}) == 1


def test_declarations_are_equal_across_processes() -> None:
    code = (
        "import pickle, sys, ucm\n"
        "nodes = pickle.load(sys.stdin.buffer)\n"
        "for node, text in nodes:\n"
        "    assert ucm.from_json(text) == node, text\n"
        "pickle.dump([node for node, _ in nodes], sys.stdout.buffer)\n"
    )
    sent = [(node, ucm.to_json(node)) for node in NODES]
    run = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(sent), capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    assert pickle.loads(run.stdout) == NODES


# --- hyperparameters ----------------------------------------------------------------------------
def test_params_and_with_params() -> None:
    U = Param("c", 2) * ucm.Ball(pos.mean, Param("r", 1)) - ucm.Ball(neg.mean, Param("r", 1.0))
    assert U.params() == {"c": 2.0, "r": 1.0} and list(U.params()) == ["c", "r"]
    V = U.with_params(r=0.5)
    assert V.params() == {"c": 2.0, "r": 0.5} and U.params()["r"] == 1.0
    assert V.with_params(r=1) == U and V != U
    assert [p.value for p in V.walk() if isinstance(p, Param)] == [2.0, 0.5, 0.5]
    with pytest.raises(CompositionError, match=r"no parameter 'kappa' in .*; it has c, r"):
        U.with_params(kappa=1)
    with pytest.raises(CompositionError, match="it has none"):
        ucm.Hull(pos).with_params(nu=1)
    with pytest.raises(CompositionError, match="nan"):
        U.with_params(r=math.nan)


def test_one_name_has_one_value() -> None:
    with pytest.raises(CompositionError, match=r"'nu' has two values, 0.3 and 0.4"):
        _ = ucm.ReducedHull(pos, nu=Param("nu", 0.3)) - ucm.ReducedHull(neg, nu=Param("nu", 0.4))
    with pytest.raises(CompositionError, match="two values"):
        ucm.Hull(pos, weights=ucm.NormBall(Param("k", 1)) & ucm.KLBall(Param("k", 0.5)))


@pytest.mark.parametrize("name", ["", "2nu", "a b", "nu-1", None, 3])
def test_a_name_is_an_identifier(name: Any) -> None:
    with pytest.raises(CompositionError, match=r"identifier|expected a str"):
        Param(name, 1.0)


@pytest.mark.parametrize("value", [math.nan, "0.3", None, 1j, [1.0], True, 10**400, Decimal("0.3")])
def test_a_value_is_a_real_number(value: Any) -> None:
    with pytest.raises(CompositionError):
        Param("nu", value)
    with pytest.raises(CompositionError):
        ucm.Ball([1.0], value)


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.int64(2), Fraction(1, 4), np.array(0.5)])
def test_numbers_of_every_kind_become_floats(value: Any) -> None:
    assert type(Param("nu", value).value) is float
    ball = ucm.Ball([1.0], value)
    assert type(ball.radius) is float and ball.radius == float(value)


@pytest.mark.parametrize(
    "array", [[np.nan, 1.0], [np.inf, 1.0], [1 + 1j, 0], ["a", "b"], [[1.0], [2.0, 3.0]], [None, 1]]
)
def test_arrays_hold_finite_real_numbers(array: Any) -> None:
    with pytest.raises(CompositionError):
        ucm.Point(array)
    with pytest.raises(CompositionError):
        ucm.AffineImage([array], ucm.Simplex())


# --- JSON ---------------------------------------------------------------------------------------
def leaves(cls: type[Node]) -> Iterator[type[Node]]:
    """The classes of the library below a class that are not the base of another: they can be written."""
    below = [c for c in cls.__subclasses__() if c.__module__.startswith("ucm.")]
    for c in below:
        yield from leaves(c)
    if not below and not getattr(cls, "__abstractmethods__", None):
        yield cls


@pytest.mark.slow
def test_json_of_every_class_in_a_fresh_library() -> None:
    """Nothing but `from_json` is imported before the classes of a module are read, module after module."""
    parts = [part for objective in OBJECTIVES for part in objective.dc()]
    parts += [part for penalty in PENALTIES for part in penalty.split()[1]]
    sets = [h.weight_set for objective in OBJECTIVES for h in objective.loss.nodes_of_type(JointLoss)]
    pooled = ucm.PooledMean(pos.group("A"), neg.group("A"))
    flips = ucm.WassersteinObjective(ucm.Hinge(), eps=0.1, kappa=1.0)
    robust = ucm.Robust(ucm.Hinge(), ucm.per_sample("radius") * ucm.Ball(0, 1))
    few, norm = ucm.Cardinality(2), RootNorm(ucm.Quadratic(np.eye(2)))
    matrices = ucm.Robust(ucm.Hinge(), ucm.per_sample("factor") @ ucm.Ball(0, 1))
    added = [
        flips,
        *flips.dc(),
        robust,
        matrices,
        few,
        OfFirst(norm),
        Epigraph((), (norm,)),
        LastWeight(1.0, 2),
    ]
    roots = [*NODES, *OTHER_LOSSES, *PENALTIES, *OBJECTIVES, *parts, *sets, pooled, *added]
    one = {type(node): node for root in roots for node in root.walk() if isinstance(node, Node)}
    written = set(leaves(Node)) - {CvxpyDomain}  # which has a function of a module
    assert written <= one.keys()
    texts: dict[str, list[str]] = {}
    for cls in written:
        texts.setdefault(cls.__module__, []).append(ucm.to_json(one[cls]))
    code = (
        "import json, sys\n"
        "for module, texts in json.load(sys.stdin).items():\n"
        "    for name in [m for m in sys.modules if m == 'ucm' or m.startswith('ucm.language')]:\n"
        "        del sys.modules[name]\n"
        "    from ucm import from_json\n"
        "    for text in texts:\n"
        "        from_json(text)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_json_of_nodes_defined_by_a_reader() -> None:
    again = ucm.from_json(ucm.to_json(SLAB))
    assert isinstance(again, Slab)
    assert again == SLAB and again.params() == {"b": inf} and again.word == "plain"
    assert pickle.loads(pickle.dumps(SLAB)) == SLAB
    np.testing.assert_array_equal(again.weights, SLAB.weights)
    unknown = ucm.to_json(SLAB).replace('.Slab"', '.Slob"')
    with pytest.raises(CompositionError, match=r"no declaration is named '.*Slob'; import the module"):
        ucm.from_json(unknown)


def test_json_has_no_infinite_constants() -> None:
    text = ucm.to_json(ucm.Hull(pos) + ucm.AffineImage(np.eye(2), ucm.Box(-inf, inf)))
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word))
    box = next(n for n in ucm.from_json(text).walk() if isinstance(n, ucm.Box))
    assert (box.lower, box.upper) == (-inf, inf)


def test_classes_of_one_name_are_told_apart() -> None:
    """One of the library and those of two modules of a reader's."""

    def make(module: str) -> Any:
        return type("Hull", (Node,), {"__module__": module, "__qualname__": "Hull"})

    hulls = [ucm.Hull(pos), make("one_of_mine")(), make("another_of_mine")()]
    for hull in hulls:
        assert type(ucm.from_json(ucm.to_json(hull))) is type(hull)
    assert len(set(hulls)) == 3


def test_json_asks_for_no_memory_that_its_text_does_not_fill() -> None:
    wide = {"csr": [1, 2**31 - 1], "data": [1.0], "indices": [5], "indptr": [0, 1]}
    for name, field in (("Quadratic", "Q"), ("ConstantMatrix", "entries"), ("L1", "weights")):
        tracemalloc.start()
        try:
            with pytest.raises(CompositionError, match=r"square matrix|is a vector"):
                ucm.from_json(_model({field: wide}, name))
            assert tracemalloc.get_traced_memory()[1] < 1e7
        finally:
            tracemalloc.stop()


def _model(fields: dict[str, Any], name: str = "Hull") -> str:
    return json.dumps({"ucm": 1, "model": {"node": name, "fields": fields}})


POS = {"node": "Samples", "fields": {"kind": "pos"}}
GARBAGE = [
    "", "null", "3", "[]", "{}", "nonsense", '{"ucm": 1}', '{"ucm": 2, "model": {}}', '"Hull(pos)"',
    '{"ucm": 1, "model": 3}', '{"ucm": 1, "model": null}', '{"ucm": 1, "model": []}',
    '{"ucm": 1, "model": {"tuple": []}}', '{"ucm": 1, "model": {"node": "Range", "fields": {}}}',
    '{"ucm": 1, "model": {"node": 3, "fields": {}}}', '{"ucm": 1, "model": {"node": ["a"], "fields": {}}}',
    '{"ucm": 1, "model": {"node": {}, "fields": {}}}',
    _model({}), _model({"samples": 3}), _model({"samples": POS, "extra": 1}), _model({"samples": [POS]}),
    _model({"samples": POS, "weights": POS}),
    _model({"samples": {"node": "Samples", "fields": {"kind": "x"}}}),
    _model({"__class__": "os.system"}),
    _model({"samples": {"node": "os.system", "fields": {"command": "true"}}}),
    _model({"parts": {"tuple": []}}, "LinearCombination"), _model({"terms": {"tuple": []}}, "LossSum"),
    _model({"terms": {"tuple": []}}, "PenaltySum"), _model({"terms": {"tuple": []}}, "VectorSum"),
    _model({"factor": 1.0, "term": {"tuple": []}}, "TermMultiple"),
    _model({"terms": {"tuple": [1.0]}}, "TermSum"),
    _model({}, "Node"), _model({}, "Domain"), _model({}, "UncertaintySet"), _model({}, "object"),
    _model({}, "eval"),
    _model({"vector": {"array": "zz"}}, "Point"), _model({"vector": {"array": [[1], [2, 3]]}}, "Point"),
    _model({"vector": {"array": [1e999]}}, "Point"), _model({"vector": {"csr": [2, 2]}}, "Point"),
    _model({"vector": {"float": "os"}}, "Point"),
    _model({"vector": {"node": "Param", "fields": {"name": "nu"}}}, "Point"),
    _model({"A": {"csr": [2, 2], "data": [1], "indices": [7], "indptr": [0, 1, 1]}, "domain":
        {"node": "Simplex", "fields": {}}}, "AffineImage"),
    _model({"A": {"csr": [-1, 2], "data": [], "indices": [], "indptr": []}, "domain":
        {"node": "Simplex", "fields": {}}}, "AffineImage"),
    _model({"radius": {"node": "Param", "fields": {"name": "a b", "value": 1}}}, "NormBall"),
    _model({"radius": {"node": "Param", "fields": {"name": "nu", "value": "1"}}}, "NormBall"),
    _model({"radius": "__import__('os')"}, "NormBall"),
    _model({"radius": {"float": "nan"}}, "NormBall"),
    '{"ucm": 1, "model": {"node": "Hull", "fields": 3}}', '{"ucm": 1, "model": {"node": "Hull"}}',
    '{"ucm": 1, "model": {"node": "NormBall", "fields": {"radius": NaN}}}',
    '{"ucm": true, "model": {"node": "Hull", "fields": []}}',
    '{"ucm": 1, "model": ' + '{"tuple": [' * 100_000,
    '{"ucm": 1, "model": ' + '{"tuple": [' * 3_000 + "1" + "]}" * 3_000 + "}",
    "[" * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("text", GARBAGE, ids=lambda text: text[:60])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(CompositionError, match=r"."):
        ucm.from_json(text)


@pytest.mark.parametrize("thing", [None, 3, b"\xff\xfe", ["{}"], {"ucm": 1}])
def test_only_text_is_read(thing: Any) -> None:
    with pytest.raises(CompositionError):
        ucm.from_json(thing)
    if not isinstance(thing, Node):
        with pytest.raises(CompositionError):
            ucm.to_json(thing)


def test_a_deep_declaration_is_refused_or_read_but_never_breaks() -> None:
    inner = '{"node": "LinearCombination", "fields": {"parts": {"tuple": [{"tuple": [2.0, '
    hull = '{"node": "Hull", "fields": {"samples": ' + json.dumps(POS) + "}}"
    for depth in (20, 5_000):
        text = '{"ucm": 1, "model": ' + inner * depth + hull + "]}]}}}" * depth + "}"
        if depth == 20:
            assert isinstance(ucm.from_json(text), LinearCombination)
        else:
            with pytest.raises(CompositionError):
                ucm.from_json(text)


WRONG_PARTS: list[Any] = [
    {"array": [1.0, True]}, {"array": [10**400]}, {"tuple": [1, 2]}, {"float": "nan"},
    {"node": "Param", "fields": {"name": "p", "value": 1}}, {"node": "Ramp", "fields": {}}, {"node": "Hull"},
    {"csr": [10**30, 2], "data": [], "indices": [], "indptr": [0]},
    {"csr": [2, 2], "data": [1, 2], "indices": [1, 0], "indptr": [0, 1, 2]},
]  # fmt: skip


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_a_damaged_file_never_breaks_the_reader(data: st.DataObject) -> None:
    """Swap one value inside a good document for another: an equal, another, or no declaration."""
    document = json.loads(ucm.to_json(data.draw(st.sampled_from(NODES))))
    spots: list[tuple[Any, Any]] = []

    def visit(x: Any) -> None:
        for k, v in x.items() if isinstance(x, dict) else enumerate(x):
            spots.append((x, k))
            if isinstance(v, dict | list):
                visit(v)

    visit(document)
    owner, key = data.draw(st.sampled_from(spots))
    other = json.loads(ucm.to_json(data.draw(st.sampled_from(NODES))))["model"]
    parts = [other, *(x[k] for x, k in spots), *other.get("fields", {}).values()]
    odd = [None, 0, -1, 1e308, 10**400, "", "pos", "Hull", [], {}, [1.0], True, POS, *WRONG_PARTS]
    owner[key] = copy.deepcopy(data.draw(st.sampled_from([*parts, *odd])))
    try:
        node = ucm.from_json(json.dumps(document))
    except CompositionError:
        pass
    else:
        assert ucm.from_json(ucm.to_json(node)) == node
        assert repr(node) and str(node) and node._repr_latex_() and isinstance(hash(node), int)
        assert node.with_params(**node.params()) == node and list(node.walk())


def _part(entry: str, node: str = "Point", field: str = "vector") -> str:
    return f'{{"ucm": 1, "model": {{"node": "{node}", "fields": {{"{field}": {entry}}}}}}}'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (_part('{"array": [1' + "0" * 400 + "]}"), "too large|expected an array|malformed"),
        (_part('{"array": [1.0, true]}'), "an array of numbers"),
        (_part('{"array": [1.0, "2"]}'), "an array of numbers"),
        (_part('{"array": [1.0, NaN]}'), "NaN is no number of JSON"),
        (_part('{"csr": [1' + "0" * 30 + ', 2], "data": [], "indices": [], "indptr": [0]}'), "whole"),
        (_part('{"csr": [2147483647, 2], "data": [], "indices": [], "indptr": [0]}'), "row pointers"),
        (_part('{"csr": [1, 2], "data": [1], "indices": [0], "indptr": [0, Infinity]}'), "Infinity"),
        (_part('{"csr": [1, 2], "data": [1], "indices": [0], "indptr": [0, 1.5]}'), "whole"),
        (_part('{"float": "1e3"}', "NormBall", "radius"), "malformed declaration"),
        (_part("1.0", "Mean", "samples"), "Mean: samples: expected a SampleNode, got 1.0"),
        (_part('{"node": "Ramp", "fields": {}}', "NormBall", "radius"), "radius: expected"),
        (_part("2.0", "Hull", "sample"), "no field is named 'sample'; it has samples, weights"),
        (_part('{"tuple": [{"tuple": ["a", 1]}]}', "VectorSum", "terms"), "VectorSum: terms: expected"),
        ('{"ucm": 1, "model": {"node": ["Hull"], "fields": {}}}', "malformed declaration|named"),
        *(
            (_part('{"tuple": []}', node, field), f"{node}: .*at least one .* is needed, got ")
            for node, field in (
                ("LinearCombination", "parts"), ("PenaltySum", "terms"), ("LossSum", "terms"),
                ("VectorSum", "terms"), ("MatrixSum", "terms"),
            )
        ),
        (_part("2", "Param", "more"), "no field is named"),
    ],
)  # fmt: skip
def test_reading_names_the_invalid_part_of_a_tree(text: str, what: str) -> None:
    with pytest.raises(CompositionError, match=what):
        ucm.from_json(text)


def test_an_array_of_numbers_too_large_for_one_is_refused() -> None:
    with pytest.raises(CompositionError, match="expected an array of real numbers"):
        ucm.Point([10**400])  # type: ignore[list-item]
    with pytest.raises(CompositionError, match="expected an array of real numbers"):
        ucm.Point(np.array([10**400], dtype=object))


# --- how deep -----------------------------------------------------------------------------------
HULL = ucm.Hull(pos)
DEEPER: dict[str, Any] = {
    "difference": lambda U: HULL - U,
    "intersection": lambda U: U & ucm.Ball(pos.mean, 9.0),
    "multiple": lambda U: Param("c", 1.0) * U,
    "image": lambda U: np.eye(2) @ U,
}


@pytest.mark.parametrize("step", DEEPER)
def test_a_tree_too_deep_is_refused_when_it_is_written(step: str) -> None:
    U: Any = HULL
    while U._depth < 98:
        U = DEEPER[step](U)
    # whatever walks a tree, walks one that was written
    assert pickle.loads(pickle.dumps(U)) == U and ucm.from_json(ucm.to_json(U)) == U
    assert hash(U) == hash(U.with_params(**U.params())) and len(list(U.walk())) >= 98
    assert repr(U) and str(U) and U._repr_latex_()

    def on() -> None:
        deeper = U
        for _ in range(1000):
            deeper = DEEPER[step](deeper)

    with pytest.raises(CompositionError, match=r"nested 10\d deep, above 100; combine in pairs"):
        on()


def test_a_long_sum_is_one_node() -> None:
    U: Any = HULL
    for _ in range(200):
        U = U + neg.mean
    assert HULL + sum([ucm.Point(neg.mean)] * 200) == U and U._depth < 5
    assert ucm.from_json(ucm.to_json(U)) == U


def test_a_deep_tree_is_solved() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((20, 2)) + 30.0, rng.standard_normal((20, 2))])
    y = np.repeat([1.0, -1.0], 20)
    U: Any = ucm.Hull(pos) - ucm.Hull(neg)
    for _ in range(90):
        U = U + 0.01 * pos.mean
    plan = ucm.compile(U, X, y)
    assert plan.solve().status == "optimal" and plan.verify().agrees


def test_pairs_make_a_sum_of_many() -> None:
    parts: list[Any] = [ucm.Ball([float(k), 0.0], 1.0) for k in range(256)]
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
    assert sum(isinstance(node, ucm.Ball) for node in parts[0].walk()) == 256


# --- what a declaration is not ------------------------------------------------------------------
@pytest.mark.parametrize(
    "use",
    [
        lambda A, B: A and B,
        lambda A, B: A or B,
        lambda A, B: not A,
        lambda A, B: bool(A),
        lambda A, B: 1 if A else 2,
        lambda A, B: any([A, B]),
    ],
)
@pytest.mark.parametrize("node", [HULL, pos, pos.mean, ucm.Box(), ucm.Hinge(), ucm.L1()], ids=repr)
def test_a_declaration_has_no_truth(use: Any, node: Any) -> None:
    with pytest.raises(CompositionError, match="neither true nor false; write A & B"):
        use(node, HULL)


def test_a_declaration_is_found_in_a_list() -> None:
    assert HULL in [ucm.Box(), ucm.Hull(pos)] and HULL not in [ucm.Box(), ucm.Hull(neg)]


def test_a_data_frame_is_no_matrix() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.eye(2))
    for use in (lambda: table @ HULL, lambda: table.dot(HULL), lambda: table[0] @ HULL):
        with pytest.raises(CompositionError, match=r"table\.to_numpy\(\) @ U"):
            use()
    assert table.to_numpy() @ HULL == np.eye(2) @ HULL
    for use in (lambda: HULL @ table, lambda: HULL + table[0], lambda: table * HULL):
        with pytest.raises(CompositionError):
            use()


# --- the tree -----------------------------------------------------------------------------------
def test_operators_build_the_nodes_they_stand_for() -> None:
    A, B = ucm.Hull(pos), ucm.Hull(neg)
    M = np.array([[1.0, 2.0]])
    for built, node in (
        (A + B, combined((A, 1.0), (B, 1.0))),
        (A - B, combined((A, 1.0), (B, -1.0))),
        (-A, combined((A, -1.0))),
        (A & B, Intersection(A, B)),
        (M @ A, combined((A, M))),
        (2 * A, combined((A, 2.0))),
        (A * 2, combined((A, 2.0))),
        (A / 2, combined((A, 0.5))),
        (1 * A, A),
        (-1 * -A, A),
        (2 * (3 * A), combined((A, 6.0))),
        ((2 * A) / 2, A),
    ):
        assert built == node
    assert repr(A + (B - A)) == "Hull(pos) + Hull(neg) - Hull(pos)"
    assert repr((A + B) & A - B) == "(Hull(pos) + Hull(neg)) & (Hull(pos) - Hull(neg))"
    assert repr((A & B) + A) == "(Hull(pos) & Hull(neg)) + Hull(pos)"
    assert [type(n).__name__ for n in (A - B).walk()] == [
        "LinearCombination", "Hull", "Samples", "Hull", "Samples",
    ]  # fmt: skip


def _evaluate(latex: str, **values: float) -> float:
    """What a formula of one multiplier comes to: fractions, powers and logarithms as Python."""
    text = latex.replace(r"\left", "").replace(r"\right", "").replace("a_{i}", "a")
    text = text.replace(r"\cdot", "*").replace(r"\tfrac", r"\frac").replace(r"\delta", "delta")
    for _ in range(4):
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1) / (\2))", text)
        text = re.sub(r"\^\{([^{}]*)\}", r"**(\1)", text)
    text = re.sub(r"\\log (\(.*?\)\)|\w+)", r"* log(\1)", text).replace(r"\log(", "* log(")
    text = re.sub(r"(\)|[\da]) (?=[(a])", r"\1 * ", text)
    return float(eval(text, {"log": math.log, **values}))


@pytest.mark.parametrize(
    "loss",
    [
        ucm.Hinge(),
        ucm.Hinge(1.5),
        ucm.SquaredHinge(),
        ucm.HuberHinge(Param("delta", 0.3)),
        ucm.LeastSquares(),
        ucm.Exponential(),
        ucm.Logistic(),
        2.5 * ucm.Hinge(3),
    ],
    ids=repr,
)
def test_printed_conjugates_equal_those_of_the_losses(loss: Any) -> None:
    """`-l*(-a) = inf over t of l(t) + a t`, by golden sections."""
    for a in (0.2, 0.7):
        low, high = -40.0, 40.0
        for _ in range(200):  # golden sections: the function is convex
            p, q = low + 0.382 * (high - low), high - 0.382 * (high - low)
            f, g = loss.value([p]) + a * p, loss.value([q]) + a * q
            low, high = (low, q) if f <= g else (p, high)
        least = loss.value([low]) + a * low
        assert _evaluate(loss_dual(loss, "a_{i}")[0], a=a, delta=0.3) == pytest.approx(least, abs=1e-6)


def test_printed_support_functions_equal_those_of_the_sets() -> None:
    """The minimum over rho of a reduced hull and over tau of entropy."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.repeat([1.0, -1.0], 6)
    data, w = bind(X, y), rng.normal(size=3)
    g = -X[:6] @ w

    def least(f: Any, low: float, high: float) -> float:
        found: Any = minimize_scalar(f, bounds=(low, high), options={"xatol": 1e-12})
        return float(found.fun)

    cap = 2.0 / (12 * 0.4)
    reduced = least(lambda rho: rho + cap * np.maximum(0.0, g - rho).sum(), -9.0, 9.0)
    assert ucm.ReducedHull(pos, nu=0.4).support(data, -w, {})[0] == pytest.approx(reduced, abs=1e-8)
    entropic = least(lambda tau: tau * np.log(np.exp(g / tau).sum() / (0.6 * 6)), 1e-2, 50.0)
    hull = ucm.Hull(pos, weights=ucm.KLBall(0.6))
    assert hull.support(data, -w, {})[0] == pytest.approx(entropic, abs=1e-7)


def test_latex_of_matrices_counts_and_means() -> None:
    """Entries of small matrices; a number of samples for each class; operators that LaTeX has no name for."""
    sum_to_one = ucm.LinearConstraint([[1.0, 1.0]], 1.0, 1.0).to_latex()
    assert r"\begin{bmatrix} 1 & 1 \end{bmatrix}w" in sum_to_one
    assert r"A_{5 \times 5}w" in ucm.Quadratic(np.eye(5)).to_latex()
    tails = ucm.CVaR(pos, 0.5) - ucm.CVaR(neg, 0.25)
    assert r"N_{+} q_{i} \le 2" in tails.to_latex() and r"N_{-} q_{i} \le 4" in tails.to_latex()
    assert r"\frac{4}{N_{-}}" in tails.problem_latex()
    groups = ucm.WorstMean(ucm.Hinge(), groups=(pos, neg)).to_latex()
    assert r"\operatorname*{mean}_{y_{i} = +1}" in groups


def test_problem_latex_writes_primal_and_dual_out() -> None:
    mpm = ucm.models.mm_mpm(0.5).problem_latex()
    assert r"w'\bar x_{-} + \kappa \sqrt{w'\Sigma_{-} w}" in mpm and r"\kappa = 0.5" in mpm
    nu = ucm.models.nu_svm(0.3).problem_latex()
    assert r"\left(\rho_{-} + \frac{2}{m \nu} \sum_{y_{i} = -1} \max(0, w'x_{i} - \rho_{-})\right)" in nu
    assert r"\text{dual} \quad & \max_{x \in U} -\lVert x \rVert_{2}" in nu
    svm = ucm.models.svm(0.5).problem_latex()
    assert r"\frac{1}{4 \cdot \lambda} \left\lVert \sum_{i} a_{i} y_{i} x_{i}" in svm
    assert "subtracted" in ucm.models.rlsvm2(0.5).problem_latex()
    assert "where" in svm and "y_{i} = -1" not in svm
    one_class = (2 * ucm.Hinge(on=pos) + ucm.L2()).problem_latex()
    assert r"a_{i} = 0 \text{ unless } y_{i} = +1" in one_class
    one = ucm.RobustMargin(ucm.Ball(pos.mean, 0.3), norm=1).problem_latex()
    assert r"0.3 \lVert w \rVert_{1}" not in one and r"-\lVert x \rVert_{\infty}" in one
    relative = ucm.Hinge() + Param("lam", 0.5, relative=True) * ucm.L2()
    of_fraction = relative.problem_latex().splitlines()
    of_number = relative.substitute({"lam": 0.5}).problem_latex().splitlines()
    assert of_fraction[:-2] == of_number[:-2] and "at the fraction 0.5" in of_fraction[-2]
    sparse = (relative + ucm.Cardinality(2)).problem_latex()
    assert r"\lambda \cdot" in sparse and "at least" not in sparse
    with pytest.raises(CompositionError, match="loss without a penalty"):
        problem_latex(ucm.Hinge())  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [*SETS, *OBJECTIVES], ids=repr)
def test_every_model_has_a_written_problem(model: Any) -> None:
    latex = model.problem_latex()
    assert latex.isascii() and "None" not in latex and r"\text{primal}" in latex
    assert latex.count(r"\left") == latex.count(r"\right") and "+ -" not in latex
    plain = latex.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")


def test_a_parameter_shows_its_value() -> None:
    nu = Param("nu", 0.3)
    assert nu._repr_latex_() == r"$\nu = 0.3$"
    assert ucm.Ball(0, nu).to_latex() == (r"\left\{ u : \lVert u \rVert_{2} \le \nu \right\},\quad \nu = 0.3")
    assert (1 - nu)._repr_latex_() == r"$(1 - \nu),\quad \nu = 0.3$"
    assert Param("kappa_pos", 2)._repr_latex_() == r"$\kappa_{\mathrm{pos}} = 2$"
