"""The standard forms that solvers see, and what they answer."""
