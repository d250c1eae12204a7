"""The executor ``container``: jobs in containers of a Docker engine, and the images that they are made from."""
