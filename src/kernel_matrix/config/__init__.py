"""matrix.yaml: its model, reading and checking it, and the plan that it makes."""
