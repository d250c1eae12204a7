"""Cases under caches of compiled code that are cold, warm, shared, old, damaged, read-only or full."""
