"""Comparison -> files and lines for people and programs: the page, badges, compat.json, summary and annotations."""
