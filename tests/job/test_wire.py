"""Messages between the two processes of a job: what goes in comes out, and what is no message is refused."""

from __future__ import annotations

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest

from kernel_matrix.job import wire


def through(header, arrays=None):
    stream = io.BytesIO()
    wire.send(stream, header, arrays)
    stream.seek(0)
    received = wire.receive(stream)
    assert stream.read() == b"", "a message is read to its end, and no further"
    return received


def message(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + data)


def with_array(dtype, shape, data=b""):
    return message({"kind": "result", "arrays": [["out", dtype, shape]]}, data)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([1.5, np.nan, -np.inf], ml_dtypes.bfloat16),
        np.array([1.5, np.nan], np.float16),
        np.array(3.0),
        np.array(2, np.int32),
        np.zeros((0, 4), np.float32),
        np.zeros((3, 0, 2), np.uint8),
        np.array([True, False]),
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12, dtype=np.int64)[::-2],
        np.broadcast_to(np.float32(7), (2, 2)),
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}",
)
def test_an_array_comes_out_as_it_went_in(array):
    _, received = through({}, {"a": array})
    assert received["a"].dtype == array.dtype
    assert received["a"].shape == array.shape
    assert received["a"].tobytes() == np.ascontiguousarray(array).tobytes()


def test_a_received_array_is_memory_of_its_own_that_can_be_written():
    sent = np.zeros(3)
    _, received = through({}, {"a": sent})
    received["a"][0] = 1
    assert sent[0] == 0


def test_a_header_comes_out_as_it_went_in_and_arrays_keep_their_order():
    header, arrays = through({"options": {}, "empty": [], "text": "ä\n"}, {"b": np.ones(1), "a": np.zeros(2)})
    assert header == {"options": {}, "empty": [], "text": "ä\n"}
    assert list(arrays) == ["b", "a"]


def test_messages_follow_each_other():
    stream = io.BytesIO()
    wire.send(stream, {"n": 1}, {"a": np.zeros(0)})
    wire.send(stream, {"n": 2})
    stream.seek(0)
    assert [wire.receive(stream)[0]["n"] for _ in range(2)] == [1, 2]
    with pytest.raises(wire.BrokenMessageError, match="has ended"):
        wire.receive(stream)


def test_a_stream_that_gives_one_byte_at_a_time_is_read_whole():
    class Slow(io.BytesIO):
        def readinto(self, buffer):
            return super().readinto(memoryview(buffer)[:1])

    stream = Slow()
    wire.send(stream, {}, {"a": np.arange(5)})
    stream.seek(0)
    assert wire.receive(stream)[1]["a"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (io.BytesIO(b""), "has ended"),
        (io.BytesIO(b"\1\0"), "has ended"),
        (io.BytesIO(b"garbage " * 100), "bytes is no header"),
        (message(b"{"), "cannot be read"),
        (message(b"\xff\xfe"), "cannot be read"),
        (message([1, 2]), "cannot be read"),
        (message("text"), "cannot be read"),
        (message({"kind": "result"}), "cannot be read"),
        (message({"arrays": [["out", "float32"]]}), "cannot be read"),
        (message({"arrays": 3}), "cannot be read"),
        (message(b"[" * 200_000), "cannot be read"),
        (with_array("object", [1]), "cannot be read"),
        (with_array([], [1]), "cannot be read"),
        (with_array("float32", [float("inf")]), "cannot be read"),
        (with_array("float32", [float("nan")]), "cannot be read"),
        (with_array("float32", [None]), "cannot be read"),
        (with_array("float32", [10**12]), "is no array"),
        (with_array("float32", [-1, -4], b"x" * 16), "is no array"),
        (with_array("uint8", [1] * 100, b"x"), "is no array"),
        (with_array("float32", [2], b"1234567"), "has ended"),
        (message({"arrays": [[str(n), "uint8", [1 << 33]] for n in range(3)]}), "too large"),
    ],
)
def test_what_is_no_message_is_refused(stream, words):
    with pytest.raises(wire.BrokenMessageError, match=words):
        wire.receive(stream)


def test_an_array_for_which_there_is_no_memory_is_refused(monkeypatch):
    stream = with_array("float32", [25], b"x" * 100)
    original = np.empty

    def empty(size, dtype):
        if size == 100:
            raise MemoryError
        return original(size, dtype)

    monkeypatch.setattr(np, "empty", empty)
    with pytest.raises(wire.BrokenMessageError, match="no memory for the 100 bytes"):
        wire.receive(stream)


def test_an_array_of_another_dtype_is_not_sent_as_something_else():
    stream = io.BytesIO()
    with pytest.raises(ValueError, match="the array a has the dtype complex128"):
        wire.send(stream, {}, {"a": np.array([1 + 2j])})
    assert stream.getvalue() == b"", "nothing was sent"
