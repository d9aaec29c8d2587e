"""Hatchling's metadata hook: the addresses of the project, and a README whose links hold on a package index.

A workflow builds the packages that are published, and knows the repository (`GITHUB_REPOSITORY`) and the tag
(`GITHUB_REF_NAME`). A package that is built elsewhere names no addresses and keeps the relative links.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # imported by the tests, without hatchling
    MetadataHookInterface: Any = object

_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Fill in `readme` and `urls`, the dynamic fields of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("GITHUB_REPOSITORY")
        if repository:
            base = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
            text = absolute_links(text, base, os.environ.get("GITHUB_REF_NAME", "HEAD"))
            metadata["urls"] = urls(base)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute_links(text: str, base: str, ref: str) -> str:
    """Return Markdown with the relative links of a README replaced by addresses of the repository.

    Pictures are served from `base/raw/ref`, pages from `base/blob/ref`.
    """

    def replace(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        return f"{picture}{label}({base}/{'raw' if picture else 'blob'}/{ref}/{target})"

    return _LINK.sub(replace, text)


def urls(base: str) -> dict[str, str]:
    """Return the project's addresses; the site is deployed by `.github/workflows/docs.yml`."""
    owner, name = base.rsplit("/", 2)[1:]
    return {
        "Source": base,
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Issues": f"{base}/issues",
        "Changes": f"{base}/blob/HEAD/CHANGELOG.md",
    }
