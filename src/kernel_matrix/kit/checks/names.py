"""The names of the checks, in the order in which they are made, and what each looks for."""

CHECKS = {
    "golden": "the numbers, against the golden",
    "misrounded": "a value that was rounded on the way",
    "guards": "writes outside of arrays and scratch",
    "inputs": "inputs that change",
    "state": "the state of the process",
    "processes": "other processes that start or work",
    "memory": "memory that every run leaves behind",
    "repeats": "other bits in another run",
    "unwritten": "memory that nobody has written",
    "follows": "answers that do not follow the inputs",
    "kept": "results that change later",
    "fresh": "a result that depends on addresses",
    "magnitudes": "rows of zeros, small and large ones",
    "rows": "rows that read their neighbours, and NaN and Inf in a row",
    "layouts": "arrays that are not packed",
    "sizes": "no row, one, two, and more than 16 bits count",
    "gradients": "each subset of the gradients, and a second backward",
    "modes": "a forward that records gradients, no_grad, inference mode",
    "threads": "two threads at once",
    "times": "times that another process does not measure",
}
