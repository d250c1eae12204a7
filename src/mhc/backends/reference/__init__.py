"""The equations line by line in eager PyTorch; every other backend is compared with them."""
