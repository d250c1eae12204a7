"""The kit: an operator is described once, and every check that follows from its description is made.

from kernel_matrix.kit import array, operator

@operator(x=array("tokens", 8), outputs={"out": array("tokens", 8)}, rows="tokens", writes=True)
def test_double(x):
return 2 * x
"""

from kernel_matrix.job.ahead import sent
from kernel_matrix.job.ahead.artifact import Artifact as Compiled
from kernel_matrix.job.worker import Unavailable, enter_stage
from kernel_matrix.kit.description import array, operator
from kernel_matrix.kit.misbehaviour import MisbehavedError, WrongResultError, hold

__all__ = [
    "Compiled",
    "MisbehavedError",
    "Unavailable",
    "WrongResultError",
    "array",
    "enter_stage",
    "hold",
    "operator",
    "sent",
]
