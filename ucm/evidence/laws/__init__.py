"""The laws that declarations are held against: the public face is `ucm.testing`."""
