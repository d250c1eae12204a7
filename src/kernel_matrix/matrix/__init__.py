"""All that one command does: run what this machine can, keep what need not run again, and make the dashboard."""
