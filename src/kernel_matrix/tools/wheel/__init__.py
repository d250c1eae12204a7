"""Say of a built wheel whether it loads with each PyTorch, which GPUs its code is for, and if its tags are true."""
