"""Compile what a program launches: record its launches without a GPU, and compile each for every target."""
