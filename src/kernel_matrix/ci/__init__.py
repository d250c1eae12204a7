"""The work of many machines, started by a CI service: planned as rows, waited for, and named where nothing came."""
