"""The commands that this distribution brings."""
