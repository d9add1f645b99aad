"""JSON as models write it: exact, then with repairs."""
