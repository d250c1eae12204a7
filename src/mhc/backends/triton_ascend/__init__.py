"""Triton for Huawei's Ascend 910B: kernels that triton-ascend lowers to HIVM. No Ascend NPU has run them."""
