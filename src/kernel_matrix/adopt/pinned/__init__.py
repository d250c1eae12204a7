"""The pins of a repository: the versions that its own locks, requirements and constraints name."""
