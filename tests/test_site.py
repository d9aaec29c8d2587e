"""The documentation: every public name has its page, and every page shows what it should.

The pages are those of a site that is built already, in the folder that UCM_SITE names (`.ci/site` builds it).
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucm
from ucm.cli.named_model import model_names

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = os.environ.get("UCM_SITE")
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
CODES = {"PR01", "PR02", "PR03", "PR07", "RT03"}

needs_site = pytest.mark.skipif(SITE is None, reason="UCM_SITE names no built site")


@pytest.fixture(scope="module", autouse=True)
def _docs_on_the_path() -> Iterator[None]:
    sys.path.insert(0, str(DOCS))
    yield
    sys.path.remove(str(DOCS))


def of_docs(name: str) -> Any:
    return importlib.import_module(name)


def public_names() -> list[str]:
    sys.path.insert(0, str(DOCS))
    try:
        return of_docs("topics").public()
    finally:
        sys.path.remove(str(DOCS))


def found(name: str) -> Any:
    value: Any = ucm
    for word in name.split("."):
        value = getattr(value, word)
    return value


# --- the reference ----------------------------------------------------------------------------
def test_every_declaration_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason="the pictures need ucm-classifiers[plot]")
    shown, topics = of_docs("shown"), of_docs("topics")
    wanted = set()
    for topic, but in (("sets", "Samples"), ("domains", ""), ("objectives", "")):
        for section, words in topics.TOPICS[topic][1].items():
            wanted |= set(words.split()) if section != but else set()
    drawn = {**shown.SETS, **shown.DOMAINS, **shown.LOSSES, **shown.PENALTIES}
    assert not wanted - set(drawn), "add an instance to docs/shown.py"
    models = set(ucm.models.__all__) - set(model_names())
    assert None not in [shown.instance(name) for name in models], "add an instance to docs/shown.py"
    assert not set(drawn) - wanted
    for name, node in drawn.items():
        made = getattr(ucm, name)
        assert not isinstance(made, type) or isinstance(node, made), name


@pytest.mark.parametrize("name", public_names())
def test_docstrings_are_complete(name: str) -> None:
    """numpydoc's word: parameters documented, none unknown, in order, described; returns too."""
    validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is part of ucm-classifiers[docs]")
    value = found(name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        assert inspect.getdoc(value)
        return
    errors = [e for e in validate.validate(f"ucm.{name}")["errors"] if e[0] in CODES]
    doc = inspect.getdoc(value) or ""
    assert doc, "no docstring"
    if inspect.isclass(value) and "Attributes\n----------" in doc:
        # of a result: what it holds, not what it is made with
        fields = set(re.findall(r"^([\w, ]+)(?: :|$)", doc.split("Attributes\n----------")[1], re.M))
        named = {word.strip() for line in fields for word in line.split(",")}
        errors = [e for e in errors if not (e[0] == "PR01" and _asked(e[1]) <= named)]
    assert not errors


def _asked(message: str) -> set[str]:
    return set(re.findall(r"'(\w+)'", message))


# --- the pages, in a browser ------------------------------------------------------------------
EVERY_FORMULA = """async () => {
    if (!window.MathJax) return [document.querySelectorAll('.math').length, 0, 0];
    await MathJax.startup.promise;
    const all = [...document.querySelectorAll('.math')];
    return [all.filter(e => !e.querySelector('mjx-container')).length,
            document.querySelectorAll('mjx-merror, [data-mjx-error]').length, all.length];
}"""
BROKEN = "() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="part of ucm-classifiers[browser]")
    if CHROMIUM is None:
        pytest.skip("no chromium-headless-shell: apt-get install chromium-headless-shell")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


class Page:
    """A page that notes what goes wrong: errors of the console, and requests to anywhere else."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(300_000)  # 154 formulas on a busy machine take more than 30 s
        self.wrong: list[str] = []
        self.page.on("console", lambda m: self.wrong.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda r: self.wrong.append(r.url) if _outside(r.url) else None)

    def show(self, file: Path) -> Any:
        self.page.goto(file.resolve().as_uri())
        return self.page


def _outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "about:"))


def pages() -> list[str]:
    """The guide, lectures, gallery and topics, and the names that have a formula."""
    site = Path(SITE or ".")
    names = site / "generated" / "reference" / "names"
    chosen = [*site.glob("*.html"), *site.glob("lectures/*.html")]
    chosen += [*site.glob("generated/gallery/*.html"), *site.glob("generated/reference/*.html")]
    chosen += [*names.glob("ucm.models.*.html"), *names.glob("ucm.[A-Z]*.html")]
    return sorted(str(file.relative_to(site)) for file in chosen)


@needs_site
def test_the_notebook_of_each_lecture_opens_from_its_link() -> None:
    """The site offers a valid notebook without outputs for each script, with its cells."""
    nbformat = pytest.importorskip("nbformat", reason="part of ucm-classifiers[docs]")
    jupytext = pytest.importorskip("jupytext", reason="part of ucm-classifiers[docs]")
    folder = Path(SITE or ".") / "lectures"
    links = re.findall(r'href="([^"]+\.ipynb)"', (folder / "index.html").read_text(encoding="utf-8"))
    scripts = sorted((DOCS / "lectures").glob("[0-9]*.py"))
    assert [Path(link).stem for link in links] == [script.stem for script in scripts]
    for link, script in zip(links, scripts, strict=True):
        notebook = nbformat.read(folder / link, as_version=4)
        nbformat.validate(notebook)
        cells = [(c.cell_type, c.source, c.metadata.get("tags")) for c in notebook.cells]
        declared = [(c.cell_type, c.source, c.metadata.get("tags")) for c in jupytext.read(script).cells]
        assert cells == declared and not any(c.get("outputs") for c in notebook.cells)


@needs_site
@pytest.mark.browser
def test_pages_load_without_an_error_and_every_formula_is_rendered(browser: Any) -> None:
    assert SITE is not None
    every, formulas, wrong = pages(), 0, {}
    assert len(every) >= 30
    seen = Page(browser)
    for name in every:
        page = seen.show(Path(SITE) / name)
        raw, errors, count = page.evaluate(EVERY_FORMULA)
        broken = page.evaluate(BROKEN)
        formulas += count
        if raw or errors or broken or seen.wrong:
            wrong[name] = (raw, errors, broken, seen.wrong[:3])
        seen.wrong.clear()
    assert not wrong
    assert formulas >= 45


@needs_site
@pytest.mark.browser
@pytest.mark.parametrize("shade", ["light", "dark"])
def test_a_set_has_its_picture_in_both_shades(browser: Any, shade: str) -> None:
    assert SITE is not None
    seen = Page(browser, color_scheme=shade)
    page = seen.show(Path(SITE) / "generated/reference/names/ucm.Ellipsoid.html")
    page.wait_for_timeout(300)
    shown = page.evaluate(
        "() => [...document.querySelectorAll('article img')].filter(i => i.offsetWidth > 0).map(i => i.src)"
    )
    assert len(shown) == 1 and shown[0].endswith(f"Ellipsoid-{shade}.svg")


@needs_site
@pytest.mark.browser
def test_the_search_finds_a_name(browser: Any) -> None:
    assert SITE is not None
    seen = Page(browser)
    page = seen.show(Path(SITE) / "search.html")
    page.goto(page.url + "?q=Ellipsoid")
    page.wait_for_selector("#search-results li a")
    assert any("Ellipsoid" in a.inner_text() for a in page.query_selector_all("#search-results li a"))
    assert not seen.wrong


@pytest.mark.browser
def test_the_slider_of_an_animation_moves(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the pictures need ucm-classifiers[plot]")
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 10)
    X = rng.normal(size=(20, 2)) + 2.0 * y[:, None]
    animation = ucm.plot.SetAnimation.from_model(ucm.models.mm_mpm(0.5), X, y, kappa=[0.3, 0.6, 0.9])
    animation.to_html(tmp_path / "animation.html")
    seen = Page(browser)
    page = seen.show(tmp_path / "animation.html")
    visible = "() => [...document.images].findIndex(i => i.offsetWidth > 0)"
    word = "() => document.querySelector('output').value"
    assert (page.evaluate(visible), page.evaluate(word)) == (0, "0.3")
    page.focus("input[type=range]")
    for k, value in ((1, "0.6"), (2, "0.9"), (2, "0.9")):
        page.keyboard.press("ArrowRight")
        assert (page.evaluate(visible), page.evaluate(word)) == (k, value)
    assert not seen.wrong


@pytest.mark.browser
def test_results_in_a_page_keep_its_colours(browser: Any, tmp_path: Path) -> None:
    """On a dark page: no ground of their own, and the ink of the page."""
    plan = ucm.compile(ucm.models.mm_mpm(0.3), *ucm.datasets.load("wine"))
    body = plan._repr_html_() + plan.solve()._repr_html_()
    page_text = f"<!doctype html><meta charset=utf-8><body style='background:#111;color:#eee'>{body}"
    (tmp_path / "result.html").write_text(page_text, encoding="utf-8")
    seen = Page(browser)
    page = seen.show(tmp_path / "result.html")
    colours = page.evaluate(
        "() => [...document.querySelectorAll('td')].map(e => getComputedStyle(e))"
        ".map(s => s.color + ' on ' + s.backgroundColor)"
    )
    assert set(colours) == {"rgb(238, 238, 238) on rgba(0, 0, 0, 0)"}
    assert not seen.wrong
