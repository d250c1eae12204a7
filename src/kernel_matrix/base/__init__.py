"""What every room may import: errors, files, git and versions."""
