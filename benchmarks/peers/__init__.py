"""Other libraries at the same work: each a program of its own, for the environment that has the library."""
