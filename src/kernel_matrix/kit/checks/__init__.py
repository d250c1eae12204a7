"""The checks of the kit: one module for each kind."""
