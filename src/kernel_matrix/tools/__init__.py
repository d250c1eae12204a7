"""The tools: programs that import the harness, and that it never imports."""
