"""The part that runs in the environment of the user's program. It imports nothing of the harness; see :mod:`.start`."""
