"""Results of people outside the project: one signed file from their machine, checked and kept as their word."""
