"""Programs of TileLang: recorded, and compiled for each target."""
