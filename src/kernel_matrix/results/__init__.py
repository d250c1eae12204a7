"""Results: records, JUnit XML, verdicts, history."""
