"""Run the command line as ``python -m gpu_emulators``."""

import sys

from gpu_emulators.command import main

if __name__ == "__main__":
    sys.exit(main())
