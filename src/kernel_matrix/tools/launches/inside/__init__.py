"""The part that runs in the environment of the user's program. Of the harness it imports ``job.ahead`` alone."""
