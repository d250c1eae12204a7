"""A verdict on a kernel that nobody trusts."""
