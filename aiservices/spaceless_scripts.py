"""Scripts that put no spaces between words, or write particles without a space after a word."""

from __future__ import annotations

# The inside of a character class: Thai to Lao, Tibetan, Myanmar, Hangul, Khmer, New Tai Lue, Tai Tham,
# Balinese, the scripts of China and Japan, Javanese, and the planes of ideographs.
SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f"
    "\u2e80-\u2fff\u3005-\u3007\u3021-\u318f\u31a0-\u31ff\u3400-\u9fff\ua000-\ua4cf\ua980-\ua9ff\uaa60-\uaa7f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
