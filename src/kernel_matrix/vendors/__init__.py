"""One file per vendor: the devices of this machine, and what a container needs to use them."""
