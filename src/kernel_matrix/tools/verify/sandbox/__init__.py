"""The sandbox of candidates, as the judge sees it."""
