"""Stand in for a GPU, record every launch of a Triton kernel, and compile what was recorded."""
