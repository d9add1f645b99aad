"""The engine of a service call: send requests, run tools, retry, and read the typed answer."""
