"""Many machines: the rows of the plan, what becomes of their jobs, and the CI services that start them."""
