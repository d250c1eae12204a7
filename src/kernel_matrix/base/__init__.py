"""Modules that every room may import: errors, evidence, files, git, locking, paths, versions and waiting."""
