"""English text as phones: numbers and signs as words, words by dictionary and by rule."""
