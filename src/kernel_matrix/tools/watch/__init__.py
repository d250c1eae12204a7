"""The command ``watch``: published packages with each new release of a compiler, and a page of what is news."""
