"""The SpeechLM interface, the native decoder, loading."""
