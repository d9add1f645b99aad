"""A service over HTTP: one interface, its endpoints, and requests for them."""
