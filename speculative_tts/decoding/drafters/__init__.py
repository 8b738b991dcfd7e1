"""Who proposes tokens: a kind of drafter a file."""
