"""The compiler: from a declaration and data to a route, and from an answer to a classifier."""
