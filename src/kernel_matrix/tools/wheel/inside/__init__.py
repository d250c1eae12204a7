"""The part that runs in a Python with PyTorch. It imports nothing of the harness."""
