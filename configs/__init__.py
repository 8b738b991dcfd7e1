"""The YAML files of every command, installed as `speculative_tts.configs`."""
