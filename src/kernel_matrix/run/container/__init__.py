"""The executor ``container``: the engine, the images of platforms, and the containers of jobs."""
