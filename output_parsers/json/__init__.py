"""Read JSON as language models write it: exact JSON, and broken JSON with repairs that are recorded."""
