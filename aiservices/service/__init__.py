"""``create``: from an interface to an object whose methods call a model."""
