"""The vendors of devices: one module per vendor, each with a ``Vendor`` under the name ``VENDOR``.

A new vendor is one new module of this package: its name is what ``device`` says in matrix.yaml.
"""
