"""Run the jobs of a plan on this machine."""
