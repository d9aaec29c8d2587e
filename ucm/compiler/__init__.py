"""From a declaration and data to a route, and back from an answer to a classifier."""
