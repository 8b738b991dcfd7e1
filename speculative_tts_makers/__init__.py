"""Make the systems that ship: corpora, codecs, targets. The commands alone import this package."""
