"""One node for each kind of type: schema, hint, reading, writing and streaming."""
