"""A plugin of pytest for jobs under a sanitizer. It lies in a folder of its own, which a job has on its import path.

The sanitizer stands between the process that compares and the kernel's process. So the kernel itself is "below the
kernel's process", and would count as a child that works for it.
"""

from kernel_matrix.job.kernel_process import KernelProcess


def _nothing_is_known(self: KernelProcess) -> list[int]:  # noqa: ARG001
    return []


KernelProcess.work_below = _nothing_is_known  # type: ignore[method-assign]
