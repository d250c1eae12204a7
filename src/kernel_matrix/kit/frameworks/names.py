"""The names of the frameworks in a description, and of those that have gradients or arrays that can be written."""

NAMES = ("numpy", "torch", "jax")
WITH_GRADIENTS = ("torch", "jax")
WRITABLE = ("numpy", "torch")
ON_DEVICES = ("torch",)  # whose arrays name the device that a kernel runs on
