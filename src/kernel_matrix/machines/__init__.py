"""The work of several machines: the rows of a plan, and what each was asked for."""
