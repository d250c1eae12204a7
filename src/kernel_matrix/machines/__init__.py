"""Many machines: which rows an event asks for, what became of them, and how a CI service starts them."""
