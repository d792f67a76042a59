"""From a config to the engine's objects: mistakes are found before a compile."""
