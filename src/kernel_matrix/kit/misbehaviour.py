"""The misbehaviour of kernels: each kind has a code, a sentence, and what to do."""

from __future__ import annotations

from typing import NamedTuple

from kernel_matrix.kit.frameworks.names import NOTES_OPERATORS


class Kind(NamedTuple):
    """The cause and the remedy of the errors that have a code."""

    cause: str
    remedy: str
    example: str  # a sentence that somebody got


class MisbehavedError(Exception):
    """A kernel did something else than to compute its outputs."""

    stage = "launch"

    def __init__(self, code: str, sentence: str) -> None:
        """Take the code of :data:`KINDS`, and the sentence about this kernel."""
        self.sentence = f"{sentence} [{code}]"
        self.code = KINDS[code] and code
        super().__init__(self.sentence)


class WrongResultError(AssertionError):
    """A result is not what it must be; the code says by which check."""

    def __init__(self, code: str, sentence: str) -> None:
        """Take the code of :data:`KINDS`, and the sentence about this result."""
        self.sentence = f"{sentence} [{code}]"
        self.code = KINDS[code] and code
        super().__init__(self.sentence)


class UnconfirmedError(Exception):
    """A description was proposed by a program, and no person has confirmed it."""

    stage = "import"
    code = "kit-proposal"

    def __init__(self, name: str, source: str) -> None:
        """Take the operator, and where the proposal comes from."""
        super().__init__(f"nobody has confirmed the description of {name}: {source} [{self.code}]")


# Faults after which the memory of the kernel's process may be spoilt, so that another case cannot run in it.
SPOILS_MEMORY = ("kit-past-end", "kit-past-scratch", "kit-gaps", "kit-layout", "kit-sizes")


def hold(true: bool, text: str) -> None:
    """Raise an error with ``text`` unless ``true``: ``python -O`` removes ``assert`` statements.

    Raises:
        AssertionError: it is not true.
    """
    if not true:
        raise AssertionError(text)


KINDS = {
    "kit-past-end": Kind(
        "The kernel writes outside of an array that it was given: past its end or before its start.",
        "mask the stores of the last tile; compute-sanitizer or AddressSanitizer names the instruction",
        "the kernel wrote past an end of its output out",
    ),
    "kit-past-scratch": Kind(
        "The kernel writes outside of memory that it has allocated itself.",
        "allocate for the rounded-up size that is written, or mask the stores",
        "the kernel wrote past an end of memory that it allocated: 224 bytes",
    ),
    "kit-gaps": Kind(
        "The kernel writes between the elements of an array that is not packed: it does not look at strides.",
        "take the strides of the array, or make it contiguous in the wrapper and copy the result back",
        "the kernel wrote between the elements of its output out (strided arrays)",
    ),
    "kit-unwritten": Kind(
        "A result depends on memory that nobody has written.",
        "begin sums with zeros, write every element of scratch before it is read, and mask loads beyond the end",
        "the kernel computes with memory that nobody has written",
    ),
    "kit-changed-input": Kind(
        "The kernel writes into an input.",
        "write into an array of its own; if it is meant to work in place, say so: in_place=",
        "the kernel changed its input x",
    ),
    "kit-changed-process": Kind(
        "The kernel leaves the process other than it was: everything that runs later is concerned.",
        "take the setting out, or put it back before the function returns",
        "the kernel changed what NumPy does on errors, the environment (A)",
    ),
    "kit-other-process": Kind(
        "The kernel starts a process, or has one work for it, after its first run.",
        "start no process in a kernel; a compiler works in the first run alone",
        "another process started or worked while the kernel ran",
    ),
    "kit-operators": Kind(
        "The kernel has operators of the framework compute for it, besides those that move values.",
        "compute in the kernel; if an operator is meant, name it: operators=",
        f"the kernel computes with {NOTES_OPERATORS}: add, bmm",
    ),
    "kit-growth": Kind(
        "The error of a result grows with the number of rows as that of one long chain of additions.",
        "add in blocks or in pairs, or with a sum of the errors; outputs of one row must not grow at all",
        "weight: the error grows as rows^0.50, over 0.375 (4 at 16, 16 at 256, 64 at 4096 times the noise)",
    ),
    "kit-keeps-memory": Kind(
        "Runs of the kernel leave memory behind that nobody frees.",
        "keep no result or scratch between calls, or free it",
        "twelve runs of the kernel keep 8064 bytes more",
    ),
    "kit-other-bits": Kind(
        "The same inputs give other bits in another run: a race, a counter, or an order that chance determines.",
        "look for scratch that is used twice, a missing barrier, atomic additions; if those are meant, same_bits=False",
        "run 3 on the same inputs gives other results: out",
    ),
    "kit-keeps-answers": Kind(
        "Other values give wrong results: the kernel has kept an answer, or it is right for some values only.",
        "key a cache by all that the result depends on, or compute anew; else compare these values with plain code",
        "the results do not follow their inputs: other values at the same addresses: out: rel_fro 1.17 is over 1.9e-06",
    ),
    "kit-shared-result": Kind(
        "A result changes when the kernel runs again: two calls share the memory of their results.",
        "allocate the result in each call, or return a copy",
        "a result changes when the kernel runs again: y",
    ),
    "kit-alias": Kind(
        "A result lies in the memory of an input.",
        "allocate the result; if the kernel is meant to work in place, say so: in_place=",
        "the kernel gives back its own input: y lies in its input x",
    ),
    "kit-overlap": Kind(
        "Elements of a result lie in one place, as those of an expanded array do: who writes one writes them all.",
        "write each element, or return a copy",
        "the rows of a result share memory: y",
    ),
    "kit-address": Kind(
        "The result depends on where the arrays lie.",
        "use no wide load on an address that is not aligned, and no address as a key",
        "other results at other addresses: out",
    ),
    "kit-rows": Kind(
        "The result of a row depends on other rows, or a row of NaN gives numbers.",
        "mask the reduction to the row, and do not combine rows by 0 * x; NaN must stay NaN where plain code keeps it",
        "out: 144 numbers where the inputs of a row are NaN",
    ),
    "kit-layout": Kind(
        "The kernel gives other results for arrays that are not packed.",
        "take the strides of each array, or make it contiguous in the wrapper, or refuse it with an error",
        "the kernel does not look at strides: transposed arrays: out: max_abs 5.26 is over 3.81e-06",
    ),
    "kit-after-error": Kind(
        "The kernel has refused arrays with an error, and gives other results from then on.",
        "look at the arrays before anything is changed, and set back in a finally what is",
        "after an error of its own the kernel gives other results: y",
    ),
    "kit-sizes": Kind(
        "The kernel is wrong for another number of rows, or for another size of an axis that is free.",
        "mask the last tile and the last vector, count rows in 64 bits, and handle zero rows without a launch",
        "2 rows: out: max_abs 2.36 is over 7.63e-06; out: rel_fro 0.5 is over 1.91e-06",
    ),
    "kit-magnitudes": Kind(
        "The kernel is wrong where a row is zero, very small or very large.",
        "subtract the maximum before an exponential, add eps inside of the root, clamp nothing",
        "a row of zeros, a small one and a large one: out: max_abs 0.819 is over 3.81e-06",
    ),
    "kit-misrounded": Kind(
        "More elements are misrounded than one rounding at the end makes: a value was rounded on the way.",
        "keep sums and factors in fp32 until the last store",
        "y: 12.1% of the elements are misrounded, over 4.1%: it was rounded before",
    ),
    "kit-gradients": Kind(
        "A gradient depends on which others are asked for, or on how often the backward has run.",
        "compute each gradient from what the forward saved, and change nothing that is saved",
        "a gradient where weight is asked for is another one than among all: weight",
    ),
    "kit-modes": Kind(
        "The forward gives something else, or fails, where gradients are recorded, or cannot be.",
        "compute the same in both; save tensors for the backward only where a gradient is asked for",
        "other results in the mode 'gradients recorded': y",
    ),
    "kit-threads": Kind(
        "Calls of two threads disturb each other, or one thread gives something else.",
        "share no scratch between calls; what belongs to a thread is made in every thread",
        "while another thread runs the kernel: other results in out",
    ),
    "kit-exact": Kind(
        "The operator moves values, and some bits are not those that it was given.",
        "move the bits, and do not convert through another dtype",
        "y: not the very bits that plain code gives",
    ),
    "kit-kind": Kind(
        "A result is missing, or has another dtype, shape or class than the description says.",
        "return the outputs in the order of the description, in the dtype of the inputs",
        "y is float64 of shape (7, 24), for float32 of shape (7, 24)",
    ),
    "kit-narrow-golden": Kind(
        "The plain code casts to fp32 or less inside, so its result is no exact one.",
        "take the casts out of the plain code: the kit calls it with float64 for the golden",
        "y: the plain code computes its golden in fp32 or less",
    ),
    "kit-times": Kind(
        "The kernel takes longer by another process's clock than the race said, or does not compute when it is timed.",
        "wait for the device before the function returns, and compute in every call",
        "the kernel's process says 1e-07 s a run; the process that compares measures 0.000319 s",
    ),
    "kit-proposal": Kind(
        "A program wrote the description from what it read in the sources. It may be wrong in every word.",
        "write what is missing ('...'), compare each word with the operator, and take the line proposed= out",
        "nobody has confirmed the description of rms_norm: read from src/norms.py:12",
    ),
}
