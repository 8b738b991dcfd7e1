"""One C++ function for a pass through a decoder, on a CPU: source, compilation, bindings."""
