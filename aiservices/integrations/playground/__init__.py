"""A page to try the methods of services by hand."""
