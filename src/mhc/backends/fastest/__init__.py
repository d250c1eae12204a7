"""Of the kernels in Triton and in CUDA C++, for each operator and direction the one that was the faster one.

``variants.toml`` says where C++ runs, as measured on that GPU (docs/speed.md); everywhere
else, and where the C++ kernel does not take the shape, Triton's runs. C++ needs nvcc on the machine with the GPU.
``mhc_post_pre`` has its two operators one after the other, and for one token or few a kernel of its own.
"""
