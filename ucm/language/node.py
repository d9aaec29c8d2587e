"""Immutable trees of declarations, and the operators between declarations.

A node is a frozen dataclass whose fields are numbers, arrays, strings, other nodes (parameters among them),
or tuples of these. Equality and hash are structural; `repr` is source text; `str` is mathematics.
"""

from __future__ import annotations

import functools
import math
import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from numbers import Real
from types import FunctionType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.validation import malformed
from ucm.errors import DISTRIBUTION, VERSION, CompositionError, UCMError, brief, did_you_mean
from ucm.language.notation import LATEX, TEXT, Notation


class Kind(ABCMeta):
    """A metaclass with the plain `isinstance` of `type`, five times faster than that of `ABCMeta`."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


# --- numbers and arrays in fields --------------------------------------------------------------------
def as_number(x: object, where: str) -> float:
    """Return a real number other than NaN as a float; refuse anything else."""
    if type(x) is float and not math.isnan(x):  # nearly always
        return x
    x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
    try:
        number = float(x) if isinstance(x, Real) and not isinstance(x, bool) else math.nan
    except OverflowError:
        raise CompositionError(
            f"{where}: expected a number below 1e308, got a longer one; write math.inf where that is meant"
        ) from None
    if math.isnan(number):
        raise CompositionError(
            f"{where}: expected a real number or a Param, got {brief(x)}; write 0.3 or Param('nu', 0.3)"
        )
    return number


def number_source(x: float) -> str:
    """Return the exact source text of x, without a decimal point for whole numbers of up to 12 digits."""
    short = f"{x:.12g}"
    return short if float(short) == x else repr(x)


def _frozen_array(x: Any, where: str) -> Any:
    """Return a read-only float64 copy of an array of finite numbers, as CSR if sparse."""
    if sparse.issparse(x):
        why = malformed(x)
        if why is not None:
            raise CompositionError(
                f"{where}: expected a sparse matrix whose indices fit its shape, got a malformed one "
                f"({why}); build it anew"
            )
        frozen = sparse.csr_matrix(x, dtype=np.float64, copy=True)
        frozen.sum_duplicates()
        frozen.eliminate_zeros()
        for part in (frozen.data, frozen.indices, frozen.indptr):
            part.flags.writeable = False
        finite = frozen.data
    else:
        if np.ma.is_masked(x):
            raise CompositionError(
                f"{where}: expected every entry, got a masked array with some of them hidden; fill them in"
            )
        try:
            if np.iscomplexobj(x):
                raise TypeError("complex numbers")
            frozen = finite = np.array(x, dtype=np.float64) + 0.0  # no -0.0
        except (TypeError, ValueError, OverflowError) as error:
            raise CompositionError(
                f"{where}: expected an array of real numbers, its rows of one length, got {brief(x)}; give "
                "real numbers, and every row as many as the first"
            ) from error
        frozen.flags.writeable = False
    if not np.isfinite(finite).all():
        raise CompositionError(
            f"{where}: expected finite entries, got NaN or inf in {brief(x)}; leave them out"
        )
    return frozen


def _frozen(x: object, where: str) -> object:
    """Return the immutable form of a value of any type: integers stay integers, arrays become read-only."""
    match x:
        case None | Node() | str() | bool() | FunctionType():
            return x
        case tuple():
            return tuple(_frozen(item, where) for item in x)
        case int() | np.integer():
            return int(x)
    array = isinstance(x, list) or sparse.issparse(x) or (isinstance(x, np.ndarray) and x.ndim > 0)
    return _frozen_array(x, where) if array else as_number(x, where)


def _key(x: object) -> object:
    """Return a hashable key of a field value, equal for equal values only."""
    match x:
        case tuple():
            return tuple([_key(item) for item in x])
        case None | Node() | str() | float() | int() | FunctionType():
            return x
        case np.ndarray():
            return (x.shape, x.tobytes())
    return (x.shape, x.data.tobytes(), x.indices.tobytes(), x.indptr.tobytes())  # type: ignore[attr-defined]


REGISTRY: dict[str, type[Node]] = {}
"""The node classes by their `registered_name`."""
_SHOWN = 100  # entries of an array in source text; of more, the first and the last two stand there
_DEEPEST = 100  # largest depth of a tree: functions of trees are recursive, as in CVXPY


Given = TypeVar("Given")
Kept = TypeVar("Kept")
Sort = TypeVar("Sort")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., object])
Stored = Callable[[object, str], object]
"""A function of the value of a field, and of words for its place."""


def registered_name(cls: type[Node]) -> str:
    """Return the name of a class in `REGISTRY` and JSON: its own, with its module outside of this library."""
    return cls.__name__ if cls.__module__.startswith("ucm.") else f"{cls.__module__}.{cls.__qualname__}"


def converted(*, converter: Callable[[Given], Kept], default: Any = MISSING, kw_only: bool = False) -> Kept:
    """Return a dataclass field that stores `converter(given, where)`, `where` the name of the class."""
    return field(default=default, kw_only=kw_only, metadata={"converter": converter})


def restricted(
    holds: Callable[[Any], object],
    words: str,
    remedy: str,
    *,
    default: object = MISSING,
    kw_only: bool = False,
    error: type[UCMError] = CompositionError,
    converter: Stored | None = None,
) -> Any:
    """Return a dataclass field with the restriction `holds`, or an `error` of the `words` and the remedy.

    The words refuse a value of another type, too. An array in place of a number is refused in the words of
    the type, with this remedy. `converter` is that of `converted`.
    """

    def refuse(got: str, where: str, words: str = words) -> NoReturn:
        raise error(f"{where}: {words}, got {got}; {remedy}")

    def check(x: object, where: str) -> None:
        if not holds(_number_of(x)):
            got = with_value(x)
            refuse(got if len(got) <= 200 else brief(x), where)

    metadata = {"check": check, "refuse": refuse, "converter": converter}
    return field(default=default, kw_only=kw_only, metadata=metadata)


def in_interval(interval: str) -> Callable[[float], bool]:
    """Return the test whether a number lies in an interval, written as "(0, 1]"."""
    low, high = map(float, interval[1:-1].split(","))
    left, right = interval[0] == "[", interval[-1] == "]"
    return lambda x: (low < x or (left and x == low)) and (x < high or (right and x == high))


def number_in(
    interval: str, name: str, remedy: str, *, default: object = MISSING, kw_only: bool = False
) -> Any:
    """Return a dataclass field for a number in an interval, written as "(0, 1]"; None is left as it is."""
    inside, words = in_interval(interval), f"{name} must lie in {interval}"
    return restricted(lambda x: x is None or inside(x), words, remedy, default=default, kw_only=kw_only)


def _number_of(x: Any) -> Any:
    """Return the value of a scalar with parameters, and anything else itself; a loss has a method `value`."""
    number = getattr(x, "value", x)
    return x if callable(number) else number


def with_value(x: Any) -> str:
    """Return the source text of a field value for a message, with the value of an arithmetic expression."""
    number = _number_of(x)
    derived = number is not x and x not in x._params.values()
    return f"{x!r} = {number:.6g}" if derived else source(x)


def _refusing(init: Callable[..., None]) -> Callable[..., None]:
    """Return the generated `__init__` of a node, which refuses arguments that are not the fields by name."""

    @functools.wraps(init)
    def refusing(self: Node, *args: object, **kwargs: object) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            at = error.__traceback__
            if at is None or at.tb_next is not None:  # it is of a frame inside of init, not of the arguments
                raise
            shown = [f for f in _in_order(type(self)) if f.compare]
            names = ", ".join(f"{f.name}=..." if f.kw_only else f.name for f in shown)
            name, words = type(self).__name__, [f"{word}={brief(x)}" for word, x in kwargs.items()]
            got = ", ".join([*map(brief, args), *words]) or "nothing"
            remedy = self.remedy.format(f"{name}({names})")
            raise CompositionError(f"{name}: takes {names or 'nothing'}, got {got}; {remedy}") from error

    return refusing


def some(noun: str) -> Any:
    """Return a dataclass field for a tuple with one item or more."""
    return restricted(lambda items: len(items) > 0, f"at least one {noun} is needed", "write A + B")


def _in_order(cls: type[Node]) -> list[Field]:
    """Return the dataclass fields of a node class, keyword-only fields last."""
    return sorted(fields(cls), key=lambda f: bool(f.kw_only))  # type: ignore[arg-type]


@dataclass_transform(frozen_default=True, field_specifiers=(converted, restricted, number_in, field))
class Node(metaclass=Kind):
    """An immutable declaration, the base class of all declarations.

    Subclasses list their fields as in a dataclass.

    A subclass becomes a frozen dataclass, and its name is registered for `from_json`. Fields have the
    annotated types, which are checked. A field annotated `Scalar` takes a number, a `Param` or arithmetic of
    these. Whole numbers become floats in fields annotated `Scalar` or `float`, and in tuples of these. A
    field with `compare=False` takes no part in equality, `walk` and `repr`.

    Raises
    ------
    CompositionError
        A field has a value of another type or out of its range, or one parameter name has two values.
    """

    example: ClassVar[str] = ""  # source text of a declaration, for messages
    remedy: ClassVar[str] = "write {}"  # of wrong arguments, for the text of a call
    _depth: ClassVar[int] = 1  # the height of the tree; set for each node
    _below: ClassVar[tuple[Node, ...] | None] = None  # the nodes in the fields; set for each node
    _tree: ClassVar[tuple[Node, ...] | None] = None  # this node and all below; set at its first use
    _names: ClassVar[tuple[str, ...]] = ()  # the names of the fields
    _compared: ClassVar[tuple[str, ...]] = ()  # the fields that take part in equality
    _scalars: ClassVar[tuple[str, ...]] = ()  # the fields annotated `Scalar`
    _hash: ClassVar[int | None] = None  # set at its first use
    _params: ClassVar[Mapping[str, Any]] = {}  # the `Param`s of the tree by name; set for each node

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.__init__ = _refusing(cls.__init__)
        in_order = _in_order(cls)
        cls._names = tuple(f.name for f in in_order)
        cls._compared = tuple(f.name for f in in_order if f.compare)
        scalar = ("Scalar", ".Expression")  # the annotation as text and as the union that it names
        cls._scalars = tuple(f.name for f in in_order if str(f.type).endswith(scalar))
        REGISTRY[registered_name(cls)] = cls

    def __post_init__(self) -> None:
        where, values = type(self).__name__, self.__dict__
        for name, converter, stored_as, check in _rules(type(self)):
            given = values[name]
            x = stored_as(given if converter is None else converter(given, where), f"{where}: {name}")
            if check is not None:
                check(x, where)
            if x is not given:
                object.__setattr__(self, name, x)
        below = tuple(_among(self.operands()))
        object.__setattr__(self, "_below", below)
        if below:
            self._grow(below)
        self._check()

    def _check(self) -> None:
        """Refuse fields that do not fit together."""

    def _grow(self, below: tuple[Node, ...]) -> None:
        """Store depth and parameters of the tree; refuse excess depth and conflicting parameters."""
        depth = 1 + max(x._depth for x in below)
        object.__setattr__(self, "_depth", depth)
        if depth > _DEEPEST:
            raise CompositionError(
                f"{type(self).__name__}: a declaration nested {depth} deep, above {_DEEPEST}; "
                "combine in pairs, (A & B) & (C & D), not one after the other"
            )
        params: dict = {}
        for x in below:
            for name, p in x._params.items():
                if params.setdefault(name, p) != p:
                    words = " and ".join(f"{x.value:g}{' relative' * x.relative}" for x in (params[name], p))
                    raise CompositionError(
                        f"{type(self).__name__}: the parameter {name!r} has two values, {words}; use one "
                        "Param, or two names"
                    )
        if params:
            object.__setattr__(self, "_params", params)

    def formula(self, notation: Notation) -> str:
        """Return the formula of the node, by default its class name and its scalar fields."""
        scalars = (notation.scalar(getattr(self, name)) for name in self._scalars)
        return f"{notation.word(type(self).__name__)}({', '.join(scalars)})"

    # --- structure -------------------------------------------------------------------------
    def operands(self) -> tuple:
        """Return the values of the fields that take part in equality, in order."""
        return tuple(getattr(self, name) for name in self._compared)

    def walk(self) -> tuple[Node, ...]:
        """Return this node and all its descendants in depth-first preorder."""
        if self._tree is None:
            below = [node for child in self.children() for node in child.walk()]
            object.__setattr__(self, "_tree", (self, *below))
        return self._tree  # type: ignore[return-value]

    def nodes_of_type(self, kind: type[Sort]) -> tuple[Sort, ...]:
        """Return the nodes of one type in this tree, in depth-first preorder."""
        # the class decides alone; `isinstance` by way of a metaclass takes four times as long
        return tuple([x for x in self.walk() if kind in type(x).__mro__])  # type: ignore[misc]

    def once(self, key: Hashable, make: Callable[[], Result], data: Data | None = None) -> Result:
        """Return `make()`, called at the first use of the key and cached in the declaration.

        It depends on the declaration and the key alone, or on bound samples too: then `data` are these, and
        the result is cached there, for equal declarations.
        """
        cache, key = (self._once, key) if data is None else (data.cache, (key, self))
        found = cache.get(key, MISSING)  # one hash of the key
        return cache.setdefault(key, make()) if found is MISSING else found

    @functools.cached_property
    def _once(self) -> dict[Hashable, Any]:
        return {}

    def children(self) -> tuple[Node, ...]:
        """Return the child nodes, found in the fields and in nested tuples of the fields."""
        return tuple(_among(self.operands())) if self._below is None else self._below

    def in_features(self) -> Node | None:
        """Return the first node of the tree that is not `rotation_invariant`, or None."""
        return next((node for node in self.walk() if not node.rotation_invariant), None)

    @property
    def rotation_invariant(self) -> bool:
        """True if the meaning of the node alone is the same in all orthonormal coordinates of the samples."""
        return False

    @property
    def by_lam(self) -> bool:
        """True if a bound of `||w||` and the data determine the size of one of its domains."""
        return any(x.by_lam for x in self.children())

    # --- parameters ------------------------------------------------------------------------
    def params(self) -> dict[str, float]:
        """Return the values of the `Param`s in this declaration by name, in order of appearance."""
        return {name: p.value for name, p in self._params.items()}

    def relative_names(self) -> tuple[str, ...]:
        """Return the names of the `Param`s whose value is a fraction of the admissible interval."""
        return tuple(name for name, p in self._params.items() if p.relative)

    def substitute(self, values: Mapping[str, float]) -> Self:
        """Return the declaration with the named `Param`s, relative or not, set to absolute numbers."""
        return self._changed(values, relative=False)

    def as_fractions(self, names: Iterable[str]) -> Self:
        """Return the declaration with the named `Param`s relative, at 0.5 of their admissible interval."""
        return self._changed(dict.fromkeys(names, 0.5), relative=True)

    def with_params(self, **values: float) -> Self:
        """Return the declaration with new parameter values, which are fractions for relative parameters.

        Raises
        ------
        CompositionError
            The declaration has no parameter of this name, or refuses the value.
        """
        params = self.params()
        for name in values:
            if name not in params:
                meant = did_you_mean([name], list(params)) or ";"
                raise CompositionError(
                    f"with_params: no parameter {name!r} in {self!r}{meant} it has "
                    f"{', '.join(params) or 'none'}"
                )
        return self._changed(values)

    def _changed(self, changes: Mapping[str, float], **fields: bool) -> Self:
        """Return the declaration with new values, and other new fields, of the named `Param`s."""
        return self._rewritten(lambda node: node._changed_alone(changes, fields)) if changes else self

    def _changed_alone(self, changes: Mapping[str, float], fields: Mapping[str, bool]) -> Node:
        """Return a `Param` with its new value and fields, any other node unchanged."""
        return self

    def _rewritten(self, change: Callable[[Node], Node]) -> Self:
        """Return the declaration with `change(node)` in place of every uppermost node that it changes."""
        new = change(self)
        if new is not self:
            return new  # type: ignore[return-value]
        values = [getattr(self, name) for name in self._names]
        others = [each(x, lambda node: node._rewritten(change)) for x in values]
        same = all(a is b for a, b in zip(_among(tuple(values)), _among(tuple(others)), strict=True))
        return self if same else replace(self, **dict(zip(self._names, others, strict=True)))  # type: ignore[type-var]

    # --- identity --------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or (
            hash(self) == hash(other) and _key(self.operands()) == _key(other.operands())
        )

    def __hash__(self) -> int:
        if self._hash is None:
            key = hash((type(self).__name__, _key(self.operands())))
            object.__setattr__(self, "_hash", key)
        return self._hash  # type: ignore[return-value]

    def __getstate__(self) -> dict:
        return {name: getattr(self, name) for name in self._names}

    def __setstate__(self, state: dict) -> None:
        if state.keys() != set(self._names):
            raise CompositionError(
                f"{type(self).__name__}: the pickle is not one of version {VERSION} of {DISTRIBUTION}; "
                "declare it again, and keep it by to_json"
            )
        for name, x in state.items():
            object.__setattr__(self, name, x)
        self.__post_init__()

    def __bool__(self) -> bool:
        raise CompositionError(
            f"{self!r}: a declaration is neither true nor false; write A & B for an intersection, "
            "A == B to compare, and `is None` to ask whether there is one"
        )

    if not TYPE_CHECKING:  # else `array + U` is an array to a type checker

        def __array__(self, *_: object, **__: object) -> object:
            """Return the node in a 0-d object array, so that SciPy leaves `M @ U` to U; refuse pandas."""
            if sys._getframe(1).f_globals.get("__name__", "").startswith("pandas."):
                raise CompositionError(
                    f"{self!r}: a data frame takes it for an array; give the array, table.to_numpy() @ U"
                )
            alone = np.empty((), dtype=object)
            alone[()] = self
            return alone

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    # --- printing --------------------------------------------------------------------------
    def __repr__(self) -> str:
        words = []
        positional = True
        for f in _in_order(type(self)):
            x = getattr(self, f.name)
            if f.default is not MISSING and (not f.compare or _key(x) == _key(f.default)):
                positional = False
                continue
            required = f.default is MISSING
            words.append(source(x) if required and positional else f"{f.name}={source(x)}")
        return f"{type(self).__name__}({', '.join(words)})"

    def _with_values(self, notation: Notation) -> str:
        formula, params = self.formula(notation), [p.with_value(notation) for p in self._params.values()]
        return notation.separated(formula, ", ".join(params)) if params else formula

    def __str__(self) -> str:
        return self._with_values(TEXT)

    def to_latex(self) -> str:
        """Return the declaration in LaTeX with its parameter values, without dollar signs."""
        return LATEX.sized_delimiters(self._with_values(LATEX))

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.to_latex()}$"


class RotationInvariant(Node):
    """A node independent of the coordinates of the samples, which therefore has a kernel form.

    Its points are linear combinations of the samples, with coefficients that depend on labels, weights and
    parameters, but not on X, nor on inner products or distances of samples. The mean has this property, the
    geometric median has not. Such a declaration can be used with a kernel: there the samples are unit vectors
    e_i, and its point over these is the vector of coefficients. `compile` and `ucm.testing.check_set` compare
    it with the point over random samples.

    The property concerns the node without the nodes below it: a sum is invariant, a vector of numbers in it
    is not. A class without this base is taken to depend on the features.
    """

    @property
    def rotation_invariant(self) -> bool:
        return True


# --- types of fields -------------------------------------------------------------------------------
@functools.cache
def _rules(cls: type[Node]) -> list[tuple[str, Stored | None, Stored, Stored | None]]:
    """Return for each field its name, converter, the function to the stored form of a value, and check."""
    hints, rules = _hints(cls), []
    for f in _in_order(cls):
        converter, check, refuse = map(f.metadata.get, ("converter", "check", "refuse"))
        rules.append((f.name, converter, _stored_as(hints.get(f.name, Any), refuse), check))
    return rules


def _hints(cls: type) -> dict[str, object]:
    """Return the annotations of a class, with `Any` for names that only a type checker knows."""
    unknown: dict[str, object] = {}
    for _ in range(_DEEPEST):
        try:
            return get_type_hints(cls, localns={**vars(cls), **unknown} if unknown else None)
        except NameError as error:
            unknown[error.name or ""] = Any
        except (AttributeError, TypeError):  # of a part of such a name
            break
    return {}


@functools.cache
def _stored_as(hint: object, refuse: Callable[..., NoReturn] | None = None) -> Stored:
    """Return the function from a value, and its place in words, to its stored form, as an annotation asks.

    `refuse` refuses a value of another type (`restricted`).
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    literals = [word for k in kinds if get_origin(k) is Literal for word in get_args(k)]
    tuples = [get_args(k) for k in kinds if get_origin(k) is tuple]
    origins = {get_origin(k) or k for k in kinds} - {Literal, float, int}  # True is an int
    classes = tuple(
        k for k in origins if isinstance(k, type) and k is not Any and not (k is tuple and tuples)
    )
    kept = tuple(k for k in classes if issubclass(k, Node | str | bool | NoneType | FunctionType))
    anything, numeric = not origins <= {*classes, tuple}, float in kinds or int in kinds
    arrays = anything or np.ndarray in classes

    def stored(x: object, where: str) -> object:
        if isinstance(x, kept):
            return x
        if isinstance(x, tuple):
            for words in tuples:
                items = words[:1] * len(x) if words[1:] == (...,) else words
                if len(items) == len(x):
                    return tuple(_stored_as(item)(part, where) for item, part in zip(items, x, strict=True))
        elif numeric and type(x) is not bool and (isinstance(x, Real) or getattr(x, "ndim", 1) == 0):
            number = as_number(x, where)
            if float in kinds:
                return number
            if number.is_integer():
                return int(x) if isinstance(x, int) else int(number)
        try:
            frozen = _frozen(x, where)
        except CompositionError:
            if refuse is None or numeric or (arrays and isinstance(x, np.ndarray | list | tuple)):
                raise
            refuse(brief(x), where.partition(":")[0])
        if anything or isinstance(frozen, classes) or frozen in literals:
            return frozen
        if refuse is not None and not numeric:
            refuse(brief(x), where.partition(":")[0])
        if refuse is not None and isinstance(frozen, np.ndarray):
            refuse(brief(x), where, f"expected {_words(hint)}")
        raise CompositionError(f"{where}: expected {_words(hint)}, got {brief(x)}{_remedy(hint)}")

    return stored


_WORDS = {"float": "a plain number", "int": "a whole number", "NoneType": "None"}


def _words(hint: object) -> str:
    """Return a type annotation in words, for error messages."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [getattr(kind, "__name__", "") for kind in get_args(hint)]
        if kinds[0] == "float" and kinds[1] in ("Expression", "Param"):
            return "a real number or a Param"
        return " or ".join(map(_words, get_args(hint)))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is tuple:
        return f"a tuple of {_words(get_args(hint)[0])}"
    name = getattr(hint, "__name__", str(hint))
    return _WORDS.get(name) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _remedy(hint: object) -> str:
    """Return the remedy of an error message: an example of a value of the annotated type, if known."""
    kinds = (k for k in (hint, *get_args(hint)) if isinstance(k, type) and issubclass(k, Node))
    example = next((kind.example for kind in kinds if kind.example), "")
    example = example or ("2.0" if float in (hint, *get_args(hint)) else "")
    return f"; write for example {example}" if example else "; give one"


def _among(items: tuple) -> Iterator[Node]:
    for x in items:
        match x:
            case Node():
                yield x
            case tuple():
                yield from _among(x)


def each(x: object, change: Callable[[Node], Node]) -> Any:
    """Return a field value with `change` applied to each node, also within nested tuples."""
    match x:
        case Node():
            return change(x)
        case tuple():
            return tuple(each(item, change) for item in x)
    return x


def source(x: object) -> str:
    """Return source text that evaluates to a value equal to x; it has the ends of a long array only."""
    match x:
        case float():
            return number_source(x)
        case np.ndarray():
            if x.size <= _SHOWN:
                return repr(x.tolist())
            text = np.array2string(x, math.inf, threshold=_SHOWN, edgeitems=2, separator=", ")  # type: ignore[arg-type]
            return " ".join(text.split())
        case FunctionType():
            return x.__qualname__
        case tuple():
            items = ", ".join(map(source, x))
            return f"({items},)" if len(x) == 1 else f"({items})"
        case sparse.csr_matrix():
            return f"csr_matrix(({source(x.data)}, {source(x.indices)}, {source(x.indptr)}), shape={x.shape})"
    return repr(x)


def axes(x: Any, where: str) -> int:
    """Return the number of dimensions (ndim) of an array, a sparse matrix, nested lists or a number."""
    if sparse.issparse(x):
        return 2
    try:
        return np.ndim(x)
    except ValueError as error:
        raise CompositionError(
            f"{where}: expected rows of equal length, got {brief(x)}; "
            "give every row as many numbers as the first"
        ) from error


def in_parentheses(text: str) -> str:
    """Return the text, in parentheses if a space occurs outside all brackets."""
    depth = 0
    for ch in text:
        depth += (ch in "([{") - (ch in ")]}")
        if ch == " " and depth == 0:
            return f"({text})"
    return text


def signed_sum(
    terms: list[tuple[Any, str]], times: str, number: Callable[[Any], str], plus: str = " + "
) -> str:
    """Return the text `a x - b y` of pairs (coefficient, word), without coefficients of 1."""
    text = ""
    for c, word in terms:
        minus = isinstance(c, float) and c < 0.0
        size = -c if minus else c
        one = type(size) is float and size == 1.0
        sign = ("-" * minus) if not text else " - " if minus else plus
        text += sign + (word if one else f"{in_parentheses(number(size))}{times}{word}")
    return text


OPERATORS: dict[str, Callable[..., Any]] = {}
"""Implementations of operators by name, installed by modules that import this module."""


def operator(name: str) -> Callable[[Function], Function]:
    """Return a decorator that registers a function in `OPERATORS` under the given name."""

    def install(function: Function) -> Function:
        OPERATORS[name] = function
        return function

    return install


def binary(symbol: str, *, swapped: bool = False) -> Callable[[Arithmetic[Result], object], Result]:
    """Return the method of an operator, the reflected one if `swapped`."""

    def method(self: Arithmetic[Result], other: object) -> Result:
        return self.combine(symbol, other, self) if swapped else self.combine(symbol, self, other)

    return method


class Arithmetic(Node, Generic[Result]):
    """A declaration with arithmetic and set operators, all of which call `combine`."""

    __array_ufunc__ = None  # NumPy leaves `array + U` and `np.float64 * loss` to the methods below

    @abstractmethod
    def combine(self, symbol: str, a: object, b: object) -> Result:
        """Return `a symbol b`, one of them this node, or NotImplemented to defer to the other operand."""

    __add__, __radd__ = binary("+"), binary("+", swapped=True)
    __sub__, __rsub__ = binary("-"), binary("-", swapped=True)
    __mul__, __rmul__ = binary("*", swapped=True), binary("*", swapped=True)
    __matmul__, __rmatmul__ = binary("@"), binary("@", swapped=True)
    __and__, __rand__ = binary("&"), binary("&", swapped=True)
    __or__, __ror__ = binary("|"), binary("|", swapped=True)
    __truediv__ = binary("/")

    def __neg__(self) -> Result:
        return self.combine("*", -1.0, self)


DeclaredModel = Any
"""A `RobustMargin` or an `Objective`, whose modules import this one."""


class SolvableModel(Arithmetic[Result]):
    """A set, a robust margin or an objective: a declaration that can be solved."""

    @property
    def model(self) -> DeclaredModel:
        """The `RobustMargin` or `Objective` to solve: itself, or the margin of a set, with p = 2."""
        return self

    def problem_latex(self) -> str:
        """Return the primal and the dual problem in LaTeX; if non-convex, the primal and its convex parts.

        Support functions and conjugates are written out: see `ucm.language.problem.problem_latex`.
        """
        return OPERATORS["problem_latex"](self)


def as_declared(model: object, where: str) -> DeclaredModel:
    """Return an objective or a `RobustMargin` unchanged, and the `RobustMargin` of a set; refuse the rest."""
    return model.model if isinstance(model, SolvableModel) else OPERATORS["as model"](model, where)
