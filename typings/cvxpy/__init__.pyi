# CVXPY's own annotations refuse what it accepts (a float for p) and promise what it does not give
# (a number where an array may stand), so its names are of unknown type here.
from typing import Any

def __getattr__(name: str) -> Any: ...
