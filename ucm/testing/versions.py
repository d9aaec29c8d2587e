"""What is installed, for a report of a defect."""

from __future__ import annotations

import platform
import re
from importlib import metadata

from threadpoolctl import threadpool_info

from ucm.errors import DISTRIBUTION, VERSION

_DEVELOPMENT = re.compile("extra == .(bench|browser|dev|docs|test)\\b")


def show_versions() -> None:
    """Print the versions of Python, the system, the library, its dependencies and the BLAS libraries."""
    print(f"Python: {platform.python_version()} ({platform.platform()})")
    print(f"{DISTRIBUTION}: {VERSION}")
    try:
        needed = [x for x in metadata.requires(DISTRIBUTION) or () if not _DEVELOPMENT.search(x)]
    except metadata.PackageNotFoundError:
        needed = ["numpy", "scipy", "scikit-learn", "clarabel"]
        print("from a checkout that is not installed")
    names = {re.split(r"[^\w.-]", x, maxsplit=1)[0] for x in needed}
    for name in sorted({*names, "cvxpy"} - {DISTRIBUTION}):
        try:
            print(f"{name}: {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"{name}: not installed")
    for pool in threadpool_info():
        processor = pool.get("architecture", "unknown processor")  # only OpenBLAS and BLIS tell
        print(f"{pool['internal_api']}: {pool['version']}, {processor}, {pool['num_threads']} threads")
