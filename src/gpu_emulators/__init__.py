"""Run the machine code of AMD's GPUs, and NVIDIA's PTX, on a CPU: see the packages ``amd`` and ``nvidia``."""
