"""VALL-E and USLM: an autoregressive model of layer 1 of residual codes, and one of the rest."""
