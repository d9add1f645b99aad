"""Parse JSON written by language models, and record each repair of broken JSON."""
