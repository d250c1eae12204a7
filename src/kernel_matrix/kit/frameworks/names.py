"""The names of the frameworks in a description, and of those that have gradients, arrays that can be written, modes."""

NAMES = ("numpy", "torch", "jax")
WITH_GRADIENTS = ("torch", "jax")
WRITABLE = ("numpy", "torch")
ON_DEVICES = ("torch",)  # whose arrays name the device that a kernel runs on
MODES = {"torch": ("autocast", "compile", "stream")}  # in which a kernel may be called, where a description asks for it
NOTES_OPERATORS = "PyTorch"  # the title of the one whose operators can be seen
