"""Say whether this machine's GPU works: room in its memory, and one product of matrices that is exact in float32."""

import sys

import torch

ROOM = 2 * 2**30

if not torch.cuda.is_available():
    sys.exit("PyTorch finds no GPU here, and the driver has one")
free, total = torch.cuda.mem_get_info()
if free < min(ROOM, total // 2):
    sys.exit(f"its memory is full: {free // 2**20} of {total // 2**20} MiB are free")
a = (torch.arange(256 * 256) % 7).reshape(256, 256)
if not torch.equal((a.float().cuda() @ a.float().cuda().T).cpu(), (a @ a.T).float()):
    sys.exit("a product of two matrices of small integers is wrong")
