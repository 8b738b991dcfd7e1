"""The decoding engine: rules, drafters, sampling, token blocks and loops."""
