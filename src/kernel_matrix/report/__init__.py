"""From verdicts to files for people and programs: the page, badges, compat.json and annotations."""
