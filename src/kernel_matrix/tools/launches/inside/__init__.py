"""The part that runs in the environment of the user's program. It imports ``job.ahead`` and ``job.importing`` alone."""
