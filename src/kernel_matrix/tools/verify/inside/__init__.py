"""Run in the sandbox: the fork server, the confinement, and the candidate's side of the kit."""
