"""The model of matrix.yaml, its checks, and the plan that is made from it."""
