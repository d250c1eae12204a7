"""Metrics of records -> noise: the error of a kernel's output over the error that the baseline makes in the same dtype.

Both errors are relative Frobenius norms against the same float64 golden. A ratio of 1 says that the kernel is as exact
as the baseline. The ratio is made from the two errors here, and never taken from a record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.results.states import Verdict
from kernel_matrix.store.record import Record

MOST_ELEMENTS = 1000
_WIDE = 4  # the bytes of fp32, which kernels compute in: a narrower output is rounded once more at its end


@dataclass
class Noise:
    """The errors of one output, over several cases together.

    ``ratio`` is the root mean square of the cases' ratios. A case weighs as much as it has elements, because in a case
    of few elements the baseline can be nearly exact by luck; and at most as much as ``MOST_ELEMENTS``, because of so
    many the ratio is known to a few per cent, and a large case must not hide a small one. ``elements`` is the sum of
    the weights. ``misrounded`` and ``floor_misrounded`` are the shares of the elements that are not the correctly
    rounded golden, of the kernel and of the baseline.
    """

    elements: float = 0.0
    cases: int = 0
    evidence: Evidence = "ran"  # the least of its cases
    _with_ratio: float = 0.0
    _squares: float = 0.0
    _narrow: float = 0.0
    _wrong: float = 0.0
    _floor_wrong: float = 0.0

    @classmethod
    def of_sums(
        cls,
        cases: int,
        evidence: Evidence,
        *,
        elements: float,
        with_ratio: float,
        squares: float,
        narrow: float,
        wrong: float,
        floor_wrong: float,
    ) -> Noise:
        """Return the noise of sums that were made elsewhere, by the formula of :meth:`add`."""
        return cls(elements, cases, evidence, with_ratio, squares, narrow, wrong, floor_wrong)

    def add(self, figures: Mapping[str, float]) -> None:
        """Add the figures of the output in one case."""
        weight = min(_magnitude(figures.get("elements", 1.0)), MOST_ELEMENTS)
        error, floor = _magnitude(figures["rel_fro"]), _magnitude(figures["floor_rel_fro"])
        if figures.get("nan") or figures.get("inf"):
            error = math.inf
        self.cases += 1
        self.elements += weight
        if floor and floor < math.inf:
            self._with_ratio += weight
            self._squares += weight * (error / floor) * (error / floor) if error else 0.0
        if figures.get("itemsize", _WIDE) < _WIDE and "misrounded" in figures and "floor_misrounded" in figures:
            self._narrow += weight
            self._wrong += weight * _magnitude(figures["misrounded"])
            self._floor_wrong += weight * _magnitude(figures["floor_misrounded"])

    @property
    def ratio(self) -> float | None:
        """The error over that of the baseline; None where the baseline has no error in any case."""
        return math.sqrt(self._squares / self._with_ratio) if self._with_ratio else None

    @property
    def misrounded(self) -> float | None:
        """The share of the misrounded elements; None for outputs that are not narrower than fp32."""
        return self._wrong / self._narrow if self._narrow else None

    @property
    def floor_misrounded(self) -> float | None:
        """The same share of the baseline's elements."""
        return self._floor_wrong / self._narrow if self._narrow else None


def ratio_of(figures: Mapping[str, float]) -> float | None:
    """Return the noise ratio of one output in one case; None where a figure for it is not there."""
    if "rel_fro" not in figures or "floor_rel_fro" not in figures:
        return None
    noise = Noise()
    noise.add(figures)
    return noise.ratio


def by_dtype(verdicts: Iterable[Verdict]) -> dict[str, list[Record]]:
    """Return the records that were compared with their golden, by the dtype of the case's inputs.

    ``any`` stands for the dtype of an operator without that axis.
    """
    records: dict[str, list[Record]] = {}
    for verdict in verdicts:
        if verdict.record and verdict.record.outcome in ("pass", "fail"):
            records.setdefault(str(verdict.case.axes.get("dtype", "any")), []).append(verdict.record)
    return records


def by_output(record: Record) -> dict[str, dict[str, float]]:
    """Return the metrics of a record that belong to an output, by output: ``{"h_in": {"rel_fro": 1e-7, ...}}``."""
    outputs: dict[str, dict[str, float]] = {}
    for key, value in record.metrics.items():
        output, dot, figure = key.rpartition(".")
        if dot:
            outputs.setdefault(output, {})[figure] = value
    return {output: figures for output, figures in outputs.items() if "rel_fro" in figures}


def ratios(record: Record) -> dict[str, float]:
    """Return the noise ratio of every output in one case. An output whose baseline has no error is left out."""
    return {output: noise.ratio for output, noise in pooled([record]).items() if noise.ratio is not None}


def pooled(records: Iterable[Record]) -> dict[str, Noise]:
    """Return the noise of every output over all records, the least exact output first."""
    outputs: dict[str, Noise] = {}
    for record in records:
        for output, figures in by_output(record).items():
            if "floor_rel_fro" in figures:
                noise = outputs.setdefault(output, Noise())
                noise.add(figures)
                if record.action == "emulate":
                    noise.evidence = "emulated"
    return least_exact_first(outputs)


def least_exact_first(outputs: Mapping[str, Noise]) -> dict[str, Noise]:
    """Return the noise of some outputs, the least exact output first."""
    return dict(sorted(outputs.items(), key=lambda item: (-_known(item[1].ratio), item[0])))


def in_words(record: Record, most: int | None = None) -> str:
    """Return the noise ratios of a case, the least exact output first: ``h_in 1.02, out 0.98``; empty if none is known.

    An output that is narrower than fp32 has its share of misrounded elements, and that of the baseline. ``most``
    outputs are named at most.
    """
    outputs = [(output, noise) for output, noise in pooled([record]).items() if noise.ratio is not None]
    texts = []
    for output, noise in outputs[:most]:
        shares = ""
        if noise.misrounded is not None and noise.floor_misrounded is not None:
            shares = f" (misrounded {noise.misrounded:.2%}, baseline {noise.floor_misrounded:.2%})"
        texts.append(f"{output} {noise.ratio:.3g}{shares}")
    return ", ".join(texts)


def _known(value: float | None) -> float:
    return -1.0 if value is None else value


def _magnitude(value: float) -> float:
    """Return a figure of a record; Inf for NaN, and for a negative one, which no error is."""
    return value if value >= 0 else math.inf
