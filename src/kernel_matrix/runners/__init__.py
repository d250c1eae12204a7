"""Many machines: which rows an event asks for, what became of them, and what may be believed of their results."""
