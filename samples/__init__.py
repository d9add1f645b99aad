"""Sample programs, one file each (``python -m samples.sentiment``). ``samples.tour`` runs several of them."""
