"""Mutated declarations in JSON: each is refused by an error of the library, or is a declaration."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from draws import Source, domain, expression, objective
from guard import Tally, fuzz, guarded

import ucm
from ucm.errors import UCMError

X = np.array([[0.0, 1.0], [1.0, 3.0], [4.0, 4.5], [5.0, 7.0], [2.0, 2.0]])
Y = np.array([-1.0, -1.0, 1.0, 1.0, 1.0])
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 0.0, -0.0, -2.5, 1e300, -1e300, 5e-324, 10**400, -(10**400), 10**18,
    "", "x",
    "pos", "neg", "signed", "nan", "inf", "Ball", [], {}, [1.0], [[1.0], [1.0, 2.0]], {"float": "inf"},
    {"float": "-inf"}, {"float": "nan"}, {"tuple": []}, {"array": []}, {"array": [[]]}, {"array": [1.0, 2.0]},
    {"array": [[1.0, 0.0], [0.0, 1.0]]}, {"array": ["1"]}, {"array": [10**400]}, {"array": 3},
    {"csr": [2, 2], "data": [1.0], "indices": [0], "indptr": [0, 1, 1]},
    {"csr": [10**30, 2], "data": [1.0], "indices": [0], "indptr": [0, 1, 1]},
    {"csr": [2, 2], "data": [1.0], "indices": [7], "indptr": [0, 1, 1]},
    {"csr": [2, 2], "data": [1.0], "indices": [0], "indptr": [0, 9, 1]},
    {"node": "Param", "fields": {"name": "", "value": 1.0}},
    {"node": "Param", "fields": {"name": "nu", "value": 0.3}},
    {"node": "Param", "fields": {"name": "nu", "value": None}},
    {"node": "Samples", "fields": {"kind": "pos"}}, {"node": "Simplex", "fields": {}},
    {"node": "Point", "fields": {"vector": {"array": [1.0, 2.0]}}}, {"node": "UncertaintySet",
    "fields": {}},
    {"node": "L1", "fields": {}}, {"node": "Hinge", "fields": {"p": 1.0}}, {"node": "Nothing",
    "fields": {}},
]  # fmt: skip
NUMBERS = [x for x in ODD if type(x) in (int, float)]


@dataclass
class Tree:
    """A mutated declaration."""

    text: str

    def __repr__(self) -> str:
        return self.text


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree: the keys that lead there."""
    keys: list[Any] = []
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = list(range(len(tree)))
    return [path] * (len(path) > 0) + [p for k in keys for p in places(tree[k], (*path, k))]


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def tree(s: Source) -> Tree:
    kind = s.integer(0, 3)
    node: Any = expression(s, 2, 2, 3) if kind < 2 else domain(s) if kind == 2 else objective(s).model
    document = json.loads(ucm.to_json(ucm.RobustMargin(node, 1.5) if kind == 1 else node))
    for _ in range(s.pick([1, 1, 1, 1, 2, 3])):
        paths = places(document)
        if s.often(2):  # a number by a number
            paths = [p for p in paths if type(at(document, p)) in (int, float)] or paths
        path = s.pick(paths)
        home, key = at(document, path[:-1]), path[-1]
        change = s.integer(0, 5)
        if change <= 1 and type(home[key]) in (int, float):
            home[key] = s.pick(NUMBERS)
        elif change <= 2:
            home[key] = copy.deepcopy(s.pick(ODD))
        elif change == 3:
            home[key] = copy.deepcopy(at(document, s.pick(paths)))
        elif change == 4:
            del home[key]
        elif isinstance(home, dict):
            home[s.pick(["p", "radius", "x", "node", "left"])] = home.pop(key)
        else:
            home.insert(key, copy.deepcopy(home[key]))
        if not places(document):
            break
    text = json.dumps(document)
    if not s.often(8):
        text = text[: s.integer(0, len(text))] + s.pick(["", "}", "NaN", "Infinity", '"', "\x00", "[" * 2000])
    return Tree(text)


def judge(t: Tree, tally: Tally) -> str:
    try:
        node: Any = guarded(lambda: ucm.from_json(t.text))
    except UCMError:
        return "refused"
    guarded(lambda: (repr(node), str(node), hash(node), node.params(), list(node.walk())))
    assert guarded(lambda: ucm.from_json(ucm.to_json(node))) == node
    if not isinstance(node, ucm.extend.UncertaintySet | ucm.RobustMargin | ucm.Objective):
        return "read"
    try:
        sol: Any = guarded(lambda: ucm.solve(node, X, Y), extreme=True)
    except UCMError as error:
        return f"read, {type(error).__name__}"
    return f"read, {'proven' if sol.status == 'optimal' else 'not proven'}"


def test_mutated_trees_are_refused_or_read(record_property: Callable[[str, object], None]) -> None:
    fuzz(tree, judge, record_property, few=200, many=3_500)
