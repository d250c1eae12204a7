"""Examine this machine, its network, an image or an environment: what is there, what is not, and the remedy."""
