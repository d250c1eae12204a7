"""Functions for the compilers that several backends call: find them, read their reports, and cache their output."""
