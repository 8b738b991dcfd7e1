"""Run this engine inside other projects' official code."""
