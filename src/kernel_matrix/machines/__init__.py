"""The work of several machines: rows of the plan, the status of their jobs, and the CI services that start them."""
