"""What the engine costs here: steps, whole continuations, peers, random weights of real size."""
