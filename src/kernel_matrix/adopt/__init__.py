"""Bring the harness into a repository without matrix.yaml: look at it, propose files, write them, run the first cell.

Nothing of the repository is imported or run here, with one exception: where its dependencies stand in no file, uv
builds its metadata in a copy.
"""
