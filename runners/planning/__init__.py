"""Makes the engine's objects from a config; mistakes are found before a compile."""
