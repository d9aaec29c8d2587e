"""Losses and penalties: solvers of `Composite`, and DCA around them."""
