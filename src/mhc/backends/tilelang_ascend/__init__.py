"""TileLang for Huawei's Ascend 950: kernels of tiles that become AscendC. No Ascend NPU has run them."""
