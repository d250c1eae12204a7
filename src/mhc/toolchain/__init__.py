"""What several backends need of the compilers that they call: where they are, what they report, and a cache."""
