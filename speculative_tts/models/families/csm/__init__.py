"""CSM (Sesame): a backbone over frames of codes, and a depth decoder over the codes of a frame."""
