"""Inner products only: solvers that work on rows of a Gram matrix."""
