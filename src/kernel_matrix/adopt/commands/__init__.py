"""The commands of a repository that begins, has results of other tools, or tells people of a run."""
