"""docs/papers.md, made of `results.json` and the template `papers.md.jinja`; and its pictures."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Row
from benchmarks.papers.commands import COMMANDS, HERE, TEMPLATE, read

__all__ = ["Page", "draw", "verdict", "write"]

DOCS = HERE.parent.parent / "docs"
NOT_RUN = "not run here"


def verdict(cases: Iterable[Any], figure: str = "", why: str = "", whole: bool = True) -> str:
    """Return the state of an item.

    Each case is whether a printed figure or a claim is reached, on one that the paper names; None is no case.
    `figure` says what was found, `why` the reason why nothing can be compared, if that is so, and `whole`
    whether all commands have results.
    """
    held = [bool(case) for case in cases if case is not None]
    more = f"; {figure}" if figure else ""
    if why and NOT_RUN not in why:
        return f"not comparable ({why})"
    if not held or why:
        return NOT_RUN
    if not whole:
        return f"{NOT_RUN} in part ({sum(held)} of {len(held)} so far{more})"
    if all(held):
        return "met"
    if any(held):
        return f"partly ({sum(held)} of {len(held)}{more})"
    return f"not met ({figure})" if figure else f"not met (0 of {len(held)})"


class Page:
    """What the template asks of the results."""

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = results

    def rows(self, command: str, /, **where: Any) -> list[Row]:
        """The rows of a part, of all its pieces, in which the columns have these values."""
        pieces = (kept for name, kept in self.results.items() if name.partition(" --")[0] == command)
        found = (row for kept in pieces for row in kept["rows"])
        return [row for row in found if all(row.get(column) == value for column, value in where.items())]

    def one(self, command: str, /, **where: Any) -> Row:
        """The first of these rows, or an empty one."""
        return next(iter(self.rows(command, **where)), {})

    def cases(
        self, command: str, column: str = "within", most: float | None = None, /, **where: Any
    ) -> list[bool]:
        """A column of truth values, or whether its numbers are at most a bound."""
        found = [row[column] for row in self.rows(command, **where) if row.get(column) is not None]
        return found if most is None else [abs(value) <= most for value in found]

    def item(
        self, name: str, where: str, command: str, note: str = "", cases: Any = None, **found: str
    ) -> str:
        """A line of a table of items, with its verdict; by default of the column `within` of its command."""
        if cases is None:
            test = command.startswith("pytest")
            cases = self.cases("pytest", test=command) if test else self.cases(command)
        state = verdict(cases, **found, whole=self.whole(command))
        note = note or (found.get("figure", "") if state == "met" else "")
        more = f": {note}" if note and state != NOT_RUN else ""
        return f"| {name} | {state}{more} | {where} | `{command}` |"

    def whole(self, *parts: str) -> bool:
        """Whether all pieces of the parts have results."""
        return not {name.partition(" --")[0] for name in self.absent()} & {*parts}

    def seconds(self) -> list[float]:
        """Seconds of the processor of the commands, the longest last."""
        return sorted(kept["seconds"] for kept in self.results.values())

    def absent(self) -> list[str]:
        """The commands without results."""
        return [command.name for command in COMMANDS if command.name not in self.results]

    def compared(
        self, part: str, column: str, one: str, other: str, quantity: str, sets: Sequence[str] = ()
    ) -> list[float]:
        """The quantity of one method over that of another, set by set."""
        return [
            row[quantity] / self.one(part, set=row["set"], **{column: other})[quantity]
            for row in self.rows(part, **{column: one})
            if not sets or row["set"] in sets
        ]

    # --- claims and items of one paper -------------------------------------------------------------
    def norms_that_help(self) -> list[bool]:
        """Barbero, Table 1: for each set whether the best of the other norms is above that of p = 2."""
        table: dict[str, list[float]] = {}
        for row in self.rows("extended_nu_svm table-1"):
            table.setdefault(row["set"], []).append(row["right, %"])
        return [max(shares[2:]) > max(shares[:2]) for shares in table.values()]

    def above_exact(self) -> str:
        """Barbero, (20): where RAPMINOS ends above the proven optimum, or at 0."""
        words = []
        for row in self.rows("extended_nu_svm below", within=False):
            p, above = "inf" if row["p"] is None else f"{row['p']:g}", row["above exact"]
            found = f"{row['objective']:.3g} for {row['objective'] - above:.3g}" if above else row["status"]
            words.append(f"{row['set']} p = {p} {found}")
        return ", ".join(words) or "none"

    def pairs_of_models(
        self,
        quantity: str,
        pairs: Sequence[tuple[str, str]],
        data: Sequence[str],
        command: str = "sparse uci",
    ) -> list[Row]:
        """Ong, section 4: whether the second model of a pair has less of a quantity, on each set."""
        found = []
        for name in data:
            for more, less in pairs:
                high, low = (self._mean_of(name, model, quantity, command) for model in (more, less))
                if high is not None and low is not None:
                    found.append({"high": high, "low": low, "less": low < high})
        return found

    def _mean_of(self, data: str, model: str, quantity: str, command: str = "sparse uci") -> Any:
        return self.one(command, data=data, model=model, quantity=quantity).get("mean")

    def features_of(self, *names: str) -> str:
        """Ong, section 4.2: the mean share of the features that models use, without bupa."""
        return mean(self._mean_of(s, m, "features") for s in UCI if s != "uci_bupa" for m in names)

    def rises_with_noise(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Ong, Figure 7: whether the support vectors rise less with the second model of a pair."""

        def rise(model: str) -> float:
            ends = [
                self._mean_of(f"(0; {s})", model, "support vectors", "sparse noise") for s in ("0.3", "0")
            ]
            return ends[0] - ends[1]

        return [rise(less) < rise(more) for more, less in pairs] if self.rows("sparse noise") else []

    def falls_with_mu(self) -> list[bool]:
        """Ong, Figure 11: whether a step down in mu has fewer support vectors, on each set."""
        where = {"part": "figure 11", "quantity": "support vectors"}
        curves = [[row["mean"] for row in self.rows("sparse table-2", data=s, **where)] for s in UCI]
        return [low <= high for curve in curves for low, high in itertools.pairwise(curve)]

    def most_problems(self) -> list[Row]:
        """Ong, Figure 12: the most convex problems on the splits of a set."""
        rows = self.rows("sparse uci", part="order")
        return [{"words": f"{row['mean']:.0f} ({row['data'][4:]})", "within": row["within"]} for row in rows]

    def last_heights(self) -> str:
        """Ong, Figure 13: the last objective of RLSVM0 over the first."""
        last = {row["data"]: row["mean"] for row in self.rows("sparse effort", part="figure 13")}
        return ", ".join(f"{last[name]:.3f} ({name.removeprefix('uci_')})" for name in last)

    def best_of_psvm(self) -> list[Row]:
        """Sun, Table 1: the best p against the eight other classifiers, on each set."""
        found = []
        for name in dict.fromkeys(row["set"] for row in self.rows("psvm baselines")):
            ours = max((row["right, %"] for row in self.rows("psvm table-1", set=name)), default=float("nan"))
            ahead = ours - max(row["its split"] for row in self.rows("psvm baselines", set=name))
            found.append({"ahead": ahead, "best": ahead >= 0.0})
        return found

    def best_of_several(self) -> list[Row]:
        """Sun, Table 3: the better p against the methods at hand, means of splits."""
        found = []
        for name in dict.fromkeys(row["set"] for row in self.rows("psvm table-3")):
            ours = [row["mean"] for row in self.rows("psvm table-3", set=name) if row["printed"]]
            others = [row["mean"] for row in self.rows("psvm several-baselines", set=name)]
            if ours and others:
                ahead = max(ours) - max(others)
                found.append({"words": f"{name} {ahead:+.1f}".replace("uci_", ""), "best": ahead > 0.0})
        return found

    def text(self) -> str:
        """The page."""
        import jinja2

        undefined = jinja2.StrictUndefined
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=undefined)
        environment.filters |= {"f": number, "sum_true": lambda cases: sum(map(bool, cases))}
        environment.filters["not_true"] = lambda case: not case
        environment.globals |= {name: getattr(self, name) for name in dir(self) if name[0] != "_"}
        environment.globals |= {helper.__name__: helper for helper in _HELPERS}
        environment.globals |= {"commands": COMMANDS, "commands_run": lambda: len(self.results)}
        template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
        tally = _tally(template.render(tally={}))
        return template.render(tally=tally).rstrip() + "\n"


STATES = ("met", "partly", "not met", "not comparable", "not run here")


def _tally(text: str) -> dict[str, Counter[str]]:
    """How many lines of each part of the page have each state."""
    found: dict[str, Counter[str]] = {}
    for part in text.split("\n## ")[1:]:
        place = r"^\|[^|]*" if "| item |" in part else r"^\|.*"  # of claims the last column
        cells = re.findall(rf"{place}\| ({'|'.join(STATES)})\b", part, re.MULTILINE)
        found[part.split("\n")[0]] = Counter(cells)
    return found | {"all": sum(found.values(), Counter())}


UCI = ("uci_pima", "uci_bupa", "uci_ionosphere", "uci_sonar", "uci_wpbc")


# --- words of numbers -----------------------------------------------------------------------------
def number(value: Any, form: str = ".3g") -> str:
    """A cell of a table; empty without a number."""
    return "" if value is None else format(value, form) if isinstance(value, float) else str(value)


def ratio(one: float | None, other: float | None) -> float | None:
    """Of two numbers, if there are two."""
    return None if one is None or not other else one / other


def known(values: Iterable[float | None]) -> list[float]:
    """The numbers among them."""
    return [float(value) for value in values if value is not None]


def span(values: Iterable[float | None], form: str = ".2f") -> str:
    """The least and the largest."""
    found = known(values)
    return f"{min(found):{form}} to {max(found):{form}}" if found else NOT_RUN


def mean(values: Iterable[float | None], form: str = ".2f") -> str:
    """The mean."""
    found = known(values)
    return format(statistics.fmean(found), form) if found else NOT_RUN


def largest(values: Iterable[float | None], times: float = 1.0) -> str:
    """The largest in absolute value."""
    found = [abs(value) for value in known(values)]
    return format(times * max(found), ".2g") if found else NOT_RUN


def count(cases: Iterable[Any]) -> str:
    """How many hold, of how many."""
    held = [bool(case) for case in cases if case is not None]
    return f"{sum(held)} of {len(held)}"


def above(values: Iterable[float | None], bound: float) -> list[bool]:
    """Whether each is above the bound."""
    return [value > bound for value in known(values)]


def near_above(rows: Iterable[Row], column: str, bound: float) -> list[bool]:
    """Whether the column is above the bound; a solver that was stopped is no case below it."""
    cases = [row[column] for row in rows if row["ended"] or (row[column] or 0.0) > bound]
    return above(cases, bound)


def near(rows: Iterable[Row], ours: str, printed: str, apart: float, relative: bool = True) -> list[bool]:
    """Whether the column of ours is within `apart` of the printed one; where ours is infinite it is not."""
    cases = [(row[ours], row[printed]) for row in rows if row[printed] is not None]
    return [one is not None and abs(one - it) <= apart * (abs(it) if relative else 1.0) for one, it in cases]


def ratios(rows: Iterable[Row], one: str, other: str) -> list[float]:
    """One column over another, where there are both."""
    return known(ratio(row.get(one), row.get(other)) for row in rows)


def differences(rows: Iterable[Row], one: str, other: str) -> list[float]:
    """One column less another."""
    return [row[one] - row[other] for row in rows]


def off(rows: Iterable[Row], one: str, other: str, by: Sequence[str], form: str = "+.1f") -> str:
    """The rows that are not within, by name, with the difference of two columns."""
    words = [
        f"{' '.join(row[name] for name in by)} {row[one] - row[other]:{form}}"
        for row in rows
        if row["within"] is False
    ]
    return ", ".join(words) or "none"


def gains(rows: Iterable[Row]) -> str:
    """Points that the best nu below nu_min is better by."""
    words = [
        f"{row['below, %'] - row['above, %']:+.1f} ({row.get('set') or 'r = ' + format(row['r'], 'g')})"
        for row in rows
        if row["above, %"] is not None
    ]
    return ", ".join(words) or NOT_RUN


_HELPERS = (
    verdict, ratio, span, mean, largest, count, above, near_above, near, ratios, differences, off, gains,
)  # fmt: skip


def write(path: Path = DOCS / "papers.md") -> None:
    """Write the page."""
    path.write_text(Page(read()).text(), encoding="utf-8")


METHODS = {
    "unified": "APG / automatic", "extended-nu-svm": "RAPMINOS / faces", "psvm": "pSMO / automatic",
    "nearest-points": "clipped MDM / automatic", "sparse": "DCA, conic solver / automatic",
}  # fmt: skip


def draw(folder: Path = DOCS / "_static") -> None:
    """Write the pictures of the routes beside the methods of the papers: times, and gaps."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    page = Page(read())
    for part, words in METHODS.items():
        rows = [row for row in page.rows(f"beyond {part}") if row["status"] != "zero_in_set"]
        models = len({row["model"] for row in rows}) > 1
        labels = [row["set"].removeprefix("uci_") + f" {row['model']}" * models for row in rows]
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 0.9 + 0.16 * len(rows)), sharey=True)
        left.plot([row["times ours"] for row in rows], labels, "o")
        left.axvline(1.0, color="black", linewidth=0.8)
        left.set(xscale="log", xlabel="time of the paper's method / ours", title=words)
        for column, marker in (("gap, paper", "o"), ("gap, ours", "x")):
            right.plot([max(abs(row[column]), 1e-16) for row in rows], labels, marker, label=column)
        right.set(xscale="log", xlabel="relative gap")
        right.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
        left.invert_yaxis()
        figure.tight_layout()
        figure.savefig(folder / f"papers-{part}.png", dpi=160, metadata={"Software": None})
        plt.close(figure)
