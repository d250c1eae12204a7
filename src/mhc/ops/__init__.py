"""One module per operator: what it computes, what it takes, what it refuses. ``read`` is what two of them share."""
