"""Parser nodes for each kind of Python type. They also write values and generate JSON Schemas."""
