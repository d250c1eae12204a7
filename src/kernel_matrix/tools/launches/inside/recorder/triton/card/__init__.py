"""Launches on a GPU of this machine: by the vendor's driver, in a process of its own, and checked."""
