"""``python -m kernel_matrix``."""

import sys

from kernel_matrix.cli import main

sys.exit(main())
