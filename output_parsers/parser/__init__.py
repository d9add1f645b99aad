"""Read the text of a reply as a typed value."""
