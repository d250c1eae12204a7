"""A property that no comparison of one result has: the norm takes the scale of its input away."""

from kernel_matrix.kit import hold


def check(run, inputs, out):
    louder = run(inputs.changed(x=inputs.x * 1024))
    hold(abs(louder.y - out.y).max(initial=0) < 2e-2, "y follows the scale of x")
    hold(run.ask("kernels:name_of") == run.case.axes["kernel"], "the kernel has another name in its process")
