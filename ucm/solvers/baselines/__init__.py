"""Short NumPy versions of the algorithms of the cited papers, as printed, for comparison.

`solver="auto"` never takes one of these solvers.
"""
