"""Parse JSON as language models write it, and record each repair of broken JSON."""
