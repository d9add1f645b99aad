"""Other libraries at the same stream: each a program of its own, for the environment that has the library."""
