"""Run a service call: send model requests, run tools, retry, and parse the typed answer."""
