"""The weights that the embedded model is known to run: which they are, where they lie, getting them."""

from .choose import find_weights, weights_named
from .demo import demo_weights
from .known import KNOWN, Weights
from .places import is_ready, models_folder, place_of
from .pull import WeightsError, pull

__all__ = [
    "KNOWN",
    "Weights",
    "WeightsError",
    "demo_weights",
    "find_weights",
    "is_ready",
    "models_folder",
    "place_of",
    "pull",
    "weights_named",
]
