"""The answers in place of a GPU, its driver and its compilers while a program runs."""
