"""The commands that need a Docker engine."""
