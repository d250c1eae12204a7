"""Calls of kernels that were made before, for tensors of the same shapes and dtypes with other addresses.

A kernel may return the launches of a call, or None where they cannot be used for others of its kind. Everything else of
such a call is known too: the kernel, and what is to be allocated.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import torch

from mhc.backends import Kernel

_MOST = 1024  # calls that are kept; for one more the oldest goes


class _Kept(NamedTuple):
    """A recorded call, and the shapes, strides and dtypes of its results, None where there is none."""

    launches: Any
    results: tuple[tuple[Any, ...] | None, ...]


_kept: OrderedDict[Any, _Kept] = OrderedDict()


class Call(NamedTuple):
    """A call of a kernel on a GPU, with packed tensors; the key says everything of it but addresses."""

    kernel: Any
    key: Any
    device: torch.device
    addresses: list[int]
    added: torch.Tensor | None
    overwritten: bool

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        values: tuple[Any, ...],
        count: int,
        added: torch.Tensor | None = None,
        overwritten: bool = False,
    ) -> Call | None:
        """Return the call for ``values``, or None if it is not recorded. The first ``count`` may be tensors."""
        first = values[0]
        if not first.is_cuda:
            return None
        addresses, sizes = [], []
        for tensor in values[:count]:
            if tensor is not None:
                if not tensor.is_contiguous():
                    return None
                addresses.append(tensor.data_ptr())
                sizes.append(tensor.numel())  # the logits of mhc_coefficients do not follow from x
        if added is not None and not added.is_contiguous():
            return None
        # PyTorch's dispatcher hands a list over.
        options = tuple([tuple(value) if type(value) is list else value for value in values[count:]])
        device = first.device
        adding = None if added is None else overwritten
        key = (kernel, first.shape, first.dtype, device, tuple(sizes), options, adding)
        return cls(kernel, key, device, addresses, added, overwritten)

    def again(self) -> tuple[torch.Tensor | None, ...] | None:
        """Make the call again, and return its results, or None if none of its kind was made."""
        kept = _kept.get(self.key)
        if kept is None or torch.cuda.current_device() != self.device.index:
            return None
        results = [
            None if each is None else torch.empty_strided(each[0], each[1], dtype=each[2], device=self.device)
            for each in kept.results
        ]
        if self.overwritten:
            results[0] = self.added
        addresses = self.addresses + [each.data_ptr() for each in results if each is not None]
        if self.added is not None and not self.overwritten:
            addresses.append(self.added.data_ptr())
        return tuple(results) if kept.launches.launch(addresses) else None

    def keep(self, launches: Any, inputs: Any, out: Any) -> None:
        """Keep the launches of the call that was made, if any, for the next one of its kind."""
        if launches is None or (self.added is not None and inputs.overwritten != self.overwritten):  # or: a copy
            return
        while len(_kept) >= _MOST:
            _kept.popitem(last=False)
        results = [None if each is None else (tuple(each.shape), each.stride(), each.dtype) for each in out]
        if self.overwritten:
            results[0] = None
        _kept[self.key] = _Kept(launches, tuple(results))
