"""The checks by ``doctor`` of a Docker engine, and of an image from inside."""
