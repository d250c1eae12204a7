"""One module per operator: what it computes, what it takes, what it refuses."""
