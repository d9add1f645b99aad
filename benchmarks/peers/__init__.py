"""Programs that do the same work with other libraries, each run in the environment of its library."""
