"""Parser nodes, which read, write and describe the values of each kind of Python type."""
