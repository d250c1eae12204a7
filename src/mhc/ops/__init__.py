"""One module per operator: its equation, its inputs and outputs, its specialisation. ``read`` is shared by two."""
