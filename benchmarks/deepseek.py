"""The tensors of our operators in DeepSeek's layout, and theirs in ours.

Their streams have two leading dimensions, here one sequence. Their matrix of the streams is the transpose of ours, so
that what they do to rows we do to columns: their Sinkhorn, which begins with a softmax over rows and ends with the
columns, is ours. With an eps of 0 it is the form ``paper``.
"""

from __future__ import annotations

from typing import Any

import golden
import torch

from mhc.convert.layout import transpose_res


def sequence(tensor: torch.Tensor) -> torch.Tensor:
    """Return tokens as those of one sequence."""
    return tensor.unsqueeze(0)


def column(h_post: torch.Tensor) -> torch.Tensor:
    """Return h_post, or a gradient of it, in their shape [1, tokens, n, 1]."""
    return h_post[None, :, :, None]


def matrix(h_res: torch.Tensor) -> torch.Tensor:
    """Return our matrix as theirs, a copy [1, tokens, n, n]."""
    return h_res.mT.contiguous().unsqueeze(0)


def written(inputs: Any) -> tuple[torch.Tensor, ...]:
    """Return the inputs of ``mhc_post`` in their order: the layer's output, the streams and the coefficients."""
    return sequence(inputs.y), sequence(inputs.x), column(inputs.h_post), matrix(inputs.h_res)


def our_matrix(theirs: torch.Tensor) -> torch.Tensor:
    """Return their matrix as ours."""
    streams = theirs.shape[-1]
    return theirs.reshape(-1, streams, streams).mT


def parameters_of(inputs: Any) -> list[torch.Tensor]:
    """Return copies of phi, alpha and bias in their order of rows."""
    streams = inputs.x.shape[1]
    return [transpose_res(inputs.phi, streams), inputs.alpha.clone(), transpose_res(inputs.bias, streams)]


def our_written(y: torch.Tensor, x: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> golden.Outputs:
    """Return gradients of the inputs of ``mhc_post`` by our names."""
    return {"x": x[0], "y": y[0], "h_post": post[0, :, :, 0], "h_res": our_matrix(comb)}


def our_gradients(x: torch.Tensor, fn: torch.Tensor, scale: torch.Tensor, base: torch.Tensor) -> golden.Outputs:
    """Return gradients of the streams and of their parameters by our names."""
    streams = x.shape[-2]
    return {"x": x[0], "phi": transpose_res(fn, streams), "alpha": scale, "bias": transpose_res(base, streams)}


def our_read(h_in: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> golden.Outputs:
    """Return what is read: the layer's input, h_post and h_res after Sinkhorn."""
    tokens, hidden = h_in.numel() // h_in.shape[-1], h_in.shape[-1]
    return {"h_in": h_in.view(tokens, hidden), "h_post": post.view(tokens, -1), "h_res": our_matrix(comb)}
