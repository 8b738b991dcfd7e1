"""Judge audio, and turn counts and judgements into figures."""
