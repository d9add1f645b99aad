"""From the text of a reply to a typed value."""
