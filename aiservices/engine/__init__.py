"""The engine of a service call: send requests, run tools, retry, and parse the typed answer."""
