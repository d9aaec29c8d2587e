"""The public signatures, one a line: `python tests/signatures.py` writes them to signatures.txt."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any

import ucm
from ucm.extend import Node, Solver

FILE = Path(__file__).with_suffix(".txt")


def plain(function: Any) -> str:
    """The parameters and defaults of a function, without types."""
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def signatures() -> Iterator[str]:
    sys.path.insert(0, str(FILE.parent.parent / "docs"))
    topics = importlib.import_module("topics")

    for name in sorted(topics.public()):
        thing = attrgetter(name)(ucm)
        if not callable(thing) or (isinstance(thing, type) and issubclass(thing, Exception)):
            yield name
            continue
        yield name + plain(thing)
        if not isinstance(thing, type):
            continue
        # the methods of nodes and solvers are those of their contracts in ucm.extend
        contract = not issubclass(thing, Node | Solver) or name.startswith("extend.")
        for member, value in sorted(vars(thing).items()) if contract else ():
            if not member.startswith("_") and not member.endswith("_request"):  # scikit-learn's
                called = isinstance(value, staticmethod | classmethod | FunctionType)
                yield f"{name}.{member}{plain(getattr(thing, member)) if called else ''}"


if __name__ == "__main__":
    FILE.write_text("\n".join(signatures()) + "\n", encoding="utf-8")
