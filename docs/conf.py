"""The documentation site: `sphinx-build -W docs site`. What it generates stands in docs/generated."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib.metadata import files
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ["PYTHONPATH"] = str(HERE.parent)  # of the kernels that run the lectures
os.environ["PYTHONWARNINGS"] = "ignore::DeprecationWarning"

import classifiers  # noqa: E402
import jupytext  # noqa: E402
import shown  # noqa: E402
import topics  # noqa: E402

import ucm  # noqa: E402
from ucm.language.node import LATEX, Node  # noqa: E402

project, author, copyright = "ucm", "The ucm developers", "The ucm developers"
version = release = ucm.__version__
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
GENERATED = HERE / "generated"
STATIC = GENERATED / "static"
root_doc = "index"
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = [
    "_templates",
    "**.ipynb_checkpoints",
    "generated/static",
    "generated/cache",
    "generated/*.md",
    *(f"generated/gallery/*.{end}" for end in ("ipynb", "py", "py.md5", "zip", "json")),
    "**sg_execution_times.rst",
]
templates_path = ["_templates"]
default_role = "literal"
suppress_warnings = ["config.cache"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "generated" / "cache")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autosummary_generate = True
autosummary_generate_overwrite = True
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"dask_cluster\.py$",  # has no picture; the page on out-of-core data shows it
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "ucm"
html_static_path = ["_static", "generated/static"]
html_css_files = ["ucm.css"]
html_sourcelink_suffix = ""
html_show_sourcelink = False
html_show_search_summary = False  # would fetch pages, which a site read from files cannot
html_theme_options = {
    "navbar_align": "left",
    "navbar_center": [],
    "navigation_with_keys": False,
    "secondary_sidebar_items": [],  # the sidebar on the left lists the sections of a page
    "show_prev_next": False,
}
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["globaltoc.html"]}
mathjax_path = "mathjax/tex-chtml.js"
mathjax_options: dict[str, str] = {}

# --- generated before the build -------------------------------------------------------------------
for folder in ("static/mathjax/output/chtml/fonts/woff-v2", "static/pictures", "reference"):
    (GENERATED / folder).mkdir(parents=True, exist_ok=True)


def _written(file: Path, text: str) -> None:
    """Written where it changed, so that a second build reads only what is new."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _mathjax() -> None:
    """The parts of MathJax that a page loads, from the package `django-static-mathjax`."""
    for file in files("django-static-mathjax") or []:
        place = str(file).partition("static/mathjax/es5/")[2]
        if place == "tex-chtml.js" or (place.startswith("output/chtml/fonts") and file.suffix == ".woff"):
            target = STATIC / "mathjax" / place
            if not target.exists():
                target.write_bytes(file.read_binary())


def _notebook(script: Path) -> None:
    """The notebook of a lecture beside its script, the ids of its cells by their places."""
    notebook = jupytext.read(script)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for k, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{k}"
    _written(script.with_suffix(".ipynb"), jupytext.writes(notebook, fmt="ipynb"))


_mathjax()
lectures = sorted((HERE / "lectures").glob("[0-9]*.py"))
for script in lectures:
    _notebook(script)
contents = ["```{toctree}", ":maxdepth: 1", "", *(script.stem for script in lectures), "```", ""]
contents += ["As notebooks without outputs:", ""]
contents += [f"* {{download}}`{script.stem}.ipynb`" for script in lectures]
contents += [""]
_written(GENERATED / "lectures.md", "\n".join(contents))
_written(GENERATED / "zoo.md", classifiers.page())
for name, text in topics.pages().items():
    _written(GENERATED / "reference" / f"{name}.rst", text)
for name in (*shown.SETS, *shown.DOMAINS, *shown.LOSSES, *shown.PENALTIES):
    if not (STATIC / "pictures" / f"{name}-dark.svg").exists():
        shown.draw(name, STATIC / "pictures")

# --- pages of the reference -----------------------------------------------------------------------
USERS = (
    "params", "with_params", "problem_latex", "set", "norm", "value", "dc", "convex", "to_set", "to_loss",
    "mean", "cov",
)  # fmt: skip
"""The members of a declaration that its users call; the others are the contract's."""
CONTRACTS = set(topics.expanded(" ".join(topics.TOPICS["extend"][1].values())))


def members_of(fullname: str) -> list[tuple[str, str]]:
    """The members that the page of a class shows: "method" or "property", and the name."""
    cls: Any = ucm
    for word in fullname.split(".")[1:]:
        cls = getattr(cls, word)
    own = fullname.removeprefix("ucm.") not in CONTRACTS
    ours = {m for base in cls.__mro__ if base.__module__.startswith("ucm.") for m in vars(base)}
    names = sorted(m for m in ours if not m.startswith("_"))
    if own and issubclass(cls, Node):
        names = [m for m in USERS if m in ours]
    elif own and issubclass(cls, ucm.extend.Solver):
        names = ["refuse", "solve"]
    found = [(_kind(cls, m), m) for m in names]
    return [(kind, m) for kind, m in found if kind and inspect.getdoc(getattr(cls, m))]


def _kind(cls: type, name: str) -> str:
    if isinstance(inspect.getattr_static(cls, name), property):
        return "property"
    inner = getattr(cls, name)
    written = inspect.isroutine(inner) and (inner.__module__ or "").startswith("ucm.")
    return "method" if written else ""


autosummary_context = {"members_of": members_of}


def _pictured(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The formula of a declaration and its picture, after the first paragraph."""
    short = name.rsplit(".", 1)[-1]
    example = shown.instance(short)
    made = what in ("class", "function", "method") and name.count(".") == 1 + name.startswith("ucm.models.")
    if name.startswith("ucm.models.") and what in ("class", "function") and made:
        from ucm.cli.named_model import declare, defaults, model_names

        model = shown.instance(short)
        if short in model_names():
            model = declare(short, {w: 0.5 for w, x in defaults(short).items() if x is None})
        latex = model.problem_latex()
        extra = ["", ".. math::", "", *(f"   {line}" for line in latex.splitlines()), ""]
    elif example is not None and name == f"ucm.{short}":
        formula = LATEX.sized_delimiters(example.formula(LATEX))
        extra = ["", ".. math::", "", f"   {formula}", ""]
        if (STATIC / "pictures" / f"{short}-light.svg").exists():
            for shade in ("light", "dark"):
                extra += [f".. image:: /generated/static/pictures/{short}-{shade}.svg"]
                extra += [f"   :class: only-{shade}", "   :width: 380px"]
                extra += [f"   :alt: {short}: {shown.words(short)}", ""]
    else:
        return
    begun = next((k for k, line in enumerate(lines) if line.strip()), 0)
    at = next((k for k in range(begun, len(lines)) if not lines[k].strip()), len(lines))
    lines[at:at] = extra


_CODE = re.compile(r"(``.*?``|`.*?`)")
_MARKUP = re.compile(r"(?<!\\)([*|]|(?<=\w)_(?=\W|$))")


def _plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks: `*`, `|` and a final `_` mean themselves."""
    _literal(lines)
    block = False
    for k, line in enumerate(lines):
        stripped = line.strip()
        opens = stripped.startswith((">>>", "...")) or (stripped == "" and lines[k - 1] == "::")
        block = opens or (block and bool(stripped))
        if block or stripped.startswith("*"):
            continue
        pieces = _CODE.split(line)
        text = "".join(p if p.startswith("`") else _MARKUP.sub(r"\\\1", p) for p in pieces)
        lines[k] = re.sub(r"(`[^`]+`)(?=\w)", r"\1\\ ", text)  # "`Param`s"


def _literal(lines: list[str]) -> None:
    """An indented formula before the first section is a literal block."""
    end = next((k - 1 for k, line in enumerate(lines) if line and not line.strip("-")), len(lines))
    for k in range(end - 1, 0, -1):
        if lines[k].startswith("    ") and not lines[k - 1].strip():
            lines[k:k] = ["::", ""]


def _executed(app: Any, docname: str, source: list[str]) -> None:
    """Turn the Python blocks of a page of the guide into cells, so that the page shows their output."""
    text = source[0]
    if "/" not in docname and "```python\n" in text:
        cells = text.replace("```python\n", "```{code-cell} python\n")
        source[0] = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n" + cells


def setup(app: Any) -> None:
    app.connect("source-read", _executed)
    app.connect("autodoc-process-docstring", _plain, priority=100)
    app.connect("autodoc-process-docstring", _pictured, priority=900)
