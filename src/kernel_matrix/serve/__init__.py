"""The page of a run that goes on, and the server that shows it."""
