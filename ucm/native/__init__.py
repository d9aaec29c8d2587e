"""The compiled C library, whose binding checks the arrays of every call against the declaration.

    library.threshold(v.size, v, cap, mass, root)

An array is passed where the declaration has a pointer. It must have the declared type of elements, be
contiguous and, unless declared `const`, writable; nothing is converted or copied, so that a slow call
cannot go unseen.
Functions are those that a C file defines as EXPORT, with the structures of `structures.h`: the build turns
both into `_declarations`. Calls release the GIL; the first loads the library. Two functions have wrappers.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import platform
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_HERE = Path(__file__).resolve().parent
_FILE, _AVX2 = _HERE / "_kernels.bin", _HERE / "_kernels_avx2.bin"
_BUILD = "run `pip install -e .` in the checkout (or, to build in place, `python build_native.py`)"
_TYPES = {"double": "f8", "float": "f4", "int64_t": "i8", "int32_t": "i4", "uint32_t": "u4", "uint8_t": "u1"}


@functools.cache
def _load() -> tuple[Any, Any, dict[str, tuple[tuple[str, str], ...]]]:
    """Load the library at the first call; return cffi's declarations, the library and the parameters."""
    try:
        declarations = importlib.import_module("ucm.native._declarations")
    except ModuleNotFoundError as error:
        if error.name != "ucm.native._declarations":
            raise
        raise ImportError(f"the C library of ucm is not built: {_BUILD}") from None
    try:
        loaded = declarations.ffi.dlopen(str(_FILE))
        if _AVX2.exists() and loaded.has_avx2():
            loaded = declarations.ffi.dlopen(str(_AVX2))
        built_from = declarations.ffi.string(loaded.built_from()).decode()
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"{_FILE} does not load on this machine ({platform.system()} {platform.machine()}): it was built"
            f" for {declarations.TARGET}. Install ucm here again:"
            f" `pip install --force-reinstall --no-deps ucm-classifiers`, or {_BUILD}. The loader: {error}"
        ) from None
    files = sorted([*_HERE.glob("*.c"), *_HERE.glob("*.h")])  # none in an installed wheel
    text = "\0".join(f"{f.name}\n{f.read_text(encoding='utf-8')}" for f in files)
    if files and built_from != sha256(text.encode()).hexdigest()[:16]:
        raise ImportError(f"the C sources of ucm differ from those the library was built from: {_BUILD}")
    return declarations.ffi, loaded, declarations.PARAMETERS


@functools.cache
def structure(name: str) -> np.dtype:
    """Return the NumPy dtype of a C structure of `structures.h`; pointers are addresses, see `point`."""
    return _layout(_load()[0].typeof(name))


def _layout(kind: Any) -> np.dtype:
    if kind.kind == "struct":
        names, fields = zip(*kind.fields, strict=True)
        return np.dtype(
            {
                "names": names,
                "formats": [_layout(field.type) for field in fields],
                "offsets": [field.offset for field in fields],
                "itemsize": _load()[0].sizeof(kind),
            }
        )
    if kind.kind == "array":
        return np.dtype((_layout(kind.item), (kind.length,)))
    return np.dtype(np.uintp if kind.kind == "pointer" else _TYPES[kind.cname])


def point(state: Any, name: str, **arrays: Any) -> None:
    """Set pointer fields of the structure `state` of type `name` to arrays; None sets a field to NULL.

    The caller keeps the arrays as long as C may use the pointers. The arrays are checked as in calls.
    """
    cast = _load()[0].cast
    for field, a in arrays.items():
        state[field] = 0 if a is None else int(cast("uintptr_t", _pointer(name, field)(a)))


@functools.cache
def _pointer(name: str, field: str) -> Callable[[Any], Any]:
    return _array(name, field, dict(_load()[2][name])[field])


def _array(function: str, name: str, kind: str) -> Callable[[Any], Any]:
    """Return a converter of arrays to C pointers, which raises TypeError for arrays of the wrong kind."""
    element = kind.replace("const ", "").replace("*", "").strip()
    ffi = _load()[0]
    array = ffi.typeof(f"{element}[]")
    dtype = np.dtype(_TYPES[element]) if element in _TYPES else structure(element)
    writable, pointer = not kind.startswith("const"), ffi.from_buffer
    boolean = np.dtype(bool)

    def of(a: Any) -> Any:
        try:
            if a.dtype is dtype or a.dtype == dtype or (element == "uint8_t" and a.dtype == boolean):
                return pointer(array, a, writable)
        except (AttributeError, BufferError, ValueError):
            pass
        got = (
            f"{a.dtype.str} {a.flags.c_contiguous=} {a.flags.writeable=}"
            if isinstance(a, np.ndarray)
            else type(a)
        )
        need = f"contiguous{', writable' * writable} array of {dtype}"
        raise TypeError(f"{function}: {name} must be a {need}, in the byte order of this machine; got {got}")

    return of


def _checked(name: str) -> Callable[..., Any]:
    """Return a C function wrapped with checks of its number of arguments and its arrays."""
    _, loaded, parameters = _load()
    call = getattr(loaded, name)
    turns = [_array(name, p, kind) if "*" in kind else None for p, kind in parameters[name]]

    def checked(*arguments: Any) -> Any:
        if len(arguments) != len(turns):
            raise TypeError(f"{name} takes {len(turns)} arguments, got {len(arguments)}")
        return call(*[a if turn is None else turn(a) for turn, a in zip(turns, arguments)])

    checked.__name__ = checked.__qualname__ = name
    return checked


@functools.cache
def _use_blas() -> None:
    """Pass the addresses of SciPy's BLAS and LAPACK functions to the C library, once per process."""
    ffi, loaded, parameters = _load()
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    modules = [importlib.import_module(f"scipy.linalg.cython_{part}") for part in ("blas", "lapack")]
    capsules = {**modules[0].__pyx_capi__, **modules[1].__pyx_capi__}
    names = [p for p, kind in parameters["use_blas"] if "*" in kind]
    signatures = [get_name(capsules[name]) for name in names]
    width = 4 if all(re.search(rb"\bint \*", s) for s in signatures) else 8
    addresses = [get_pointer(capsules[name], s) for name, s in zip(names, signatures)]
    loaded.use_blas(width, *[ffi.cast("void *", a) for a in addresses])


class _Library:
    """The functions of the C files as attributes, wrapped at first access."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _load()[2]:
            raise AttributeError(f"no file of ucm/native exports a function {name}")
        _use_blas()
        function = _checked(name)
        setattr(self, name, function)
        return function


library = _Library()


# --- wrappers ------------------------------------------------------------------------------------------
def threshold(v: Vector, cap: float, mass: float) -> tuple[float, float]:
    """Return the root (ref, shift) of `sum clip((v - ref) - shift, 0, cap) = mass`; ref -inf: all capped."""
    root = np.empty(2)
    library.threshold(v.size, v, cap, mass, root, np.empty(v.size))
    return float(root[0]), float(root[1])


def fill_to_mass(g: Vector, caps: float | Vector, mass: float) -> tuple[Vector, float, tuple[float, float]]:
    """Return a maximiser of <g, q> over `0 <= q <= caps`, `sum q = mass`, the maximum and the multipliers.

    Tied entries are filled in proportion to their caps. The last result is the interval of multipliers of the
    mass; its upper end is the entry at which the caps from the largest entry down reach the mass. caps is a
    number, which may be inf, or one number for each entry.
    """
    each, q, results = isinstance(caps, np.ndarray), np.empty(g.size), np.empty(3)
    upper: Any = caps if each else np.array([caps])
    library.fill_to_mass(g.size, g, each, upper, mass, q, results, np.empty(2 * g.size))
    height, low, high = results.tolist()
    return q, height, (low, high)
