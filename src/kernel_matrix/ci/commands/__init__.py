"""The commands of a CI workflow: plan its jobs, wait for them, and prepare its machines."""
