"""What this machine, its network, an image or an environment has and lacks, and what to do about it."""
