"""The reference through ``torch.compile`` with its default compiler, Inductor."""
