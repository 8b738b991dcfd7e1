"""Convert speech codes to audio, and prompts to codes."""
