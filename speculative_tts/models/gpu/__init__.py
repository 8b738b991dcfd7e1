"""A decoder's step on a GPU, in Triton; `models.decoder` is its reference and fallback."""
