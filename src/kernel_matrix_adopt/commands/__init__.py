"""The commands of a repository that begins, or that has results of other tools."""
