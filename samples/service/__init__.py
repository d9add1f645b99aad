"""A service over HTTP: an interface, its application, and requests for its endpoints."""
