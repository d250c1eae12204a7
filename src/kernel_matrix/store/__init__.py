"""The store of results: four tables of each run, in files and in a database, and the adapters to and from them."""
