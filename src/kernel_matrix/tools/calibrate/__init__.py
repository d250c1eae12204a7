"""The noise of many seeds, and the limits that follow from it."""
