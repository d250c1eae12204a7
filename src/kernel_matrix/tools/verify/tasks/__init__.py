"""The forms in which tasks come; all give the same cases."""
