"""Files that lie: each is refused with a sentence that names it; nothing crashes."""
import struct

import numpy as np
import pytest

from tensors import inputs, write_raw_safetensors, write_safetensors


def header_of(text, version=(1, 0)):
    text = text.encode() if isinstance(text, str) else text
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text


def npy(descr="'<f4'", shape="(1, 2, 1, 8)", order="False", data=64):
    return header_of(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n") + b"\0" * data


BAD_NPY = {
    "empty": (b"", "truncated"),
    "half a signature": (b"\x93NUM", "truncated"),
    "another format": (b"PK\x03\x04" + b"\0" * 100, "does not start like"),
    "version 9": (header_of("{}", (9, 0)), "version 9.0"),
    "no header": (b"\x93NUMPY\x01\x00", "truncated"),
    "header longer than the file": (b"\x93NUMPY\x01\x00\xff\xff{", "truncated"),
    "header of a gigabyte": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", "header claims"),
    "header is no dictionary": (header_of("[1, 2]\n"), "malformed"),
    "header without end": (header_of("{'descr': '<f4', "), "malformed"),
    "string without end": (header_of("{'descr': '<f4"), "malformed"),
    "rest after the header": (header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } 1\n"), "malformed"),
    "no shape": (header_of("{'descr': '<f4', 'fortran_order': False}\n"), "lacks shape"),
    "no descr": (header_of("{'fortran_order': False, 'shape': ()}\n"), "lacks descr"),
    "unknown key": (header_of("{'color': 'red'}\n"), "color"),
    "negative extent": (npy(shape="(-1, 2)"), "malformed"),
    "float extent": (npy(shape="(1.5, 2)"), "malformed"),
    "extent past 2^64": (npy(shape="(99999999999999999999999, 2)"), "malformed"),
    "product past 2^63": (npy(shape="(4294967296, 4294967296, 4)"), "too large"),
    "product that wraps to 0": (npy(shape="(4611686018427387904, 4)"), "too large"),
    "far more than there is": (npy(shape="(1000000, 1000000)"), "truncated"),
    "one byte short": (npy(data=63), "truncated"),
    "one byte more": (npy(data=65), "1 bytes follow"),
    "big endian": (npy(descr="'>f4'"), "big-endian"),
    "integers": (npy(descr="'<i4'"), "'<i4'"),
    "complex": (npy(descr="'<c8'"), "'<c8'"),
    "objects": (npy(descr="'|O'"), "'|O'"),
    "structured": (npy(descr="[('a', '<f4')]"), "structured"),
    "empty descr": (npy(descr="''"), "empty"),
    "order is a number": (npy(order="1"), "malformed"),
    "rank 0": (npy(shape="()", data=4), "4 axes"),
    "rank 1": (npy(shape="(16,)"), "4 axes"),
    "rank 5": (npy(shape="(1, 1, 2, 1, 8)"), "4 axes"),
    "rank 40": (npy(shape="(" + "1, " * 40 + ")", data=4), "more than 8 axes"),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_npy(tandem, tmp_path, name):
    content, words = BAD_NPY[name]
    (tmp_path / "bad.npy").write_bytes(content)
    good = np.zeros((1, 2, 1, 8), np.float32)
    np.save(tmp_path / "good.npy", good)
    tandem("run", tmp_path / "bad.npy", tmp_path / "good.npy", tmp_path / "good.npy").refused("bad.npy", words)


F = {"dtype": "F32", "shape": [1, 2, 1, 8], "data_offsets": [0, 64]}


def three(q, k=None, v=None):
    """A header of three tensors, of which q is the one under test."""
    return {"q": q, "k": k or {**F, "data_offsets": [64, 128]}, "v": v or {**F, "data_offsets": [128, 192]}}


BAD_SAFETENSORS = {
    "empty": (b"", None, "truncated"),
    "header length past the end": (struct.pack("<Q", 1000) + b"{}", None, "truncated"),
    "header length of 2^63": (struct.pack("<Q", 1 << 63) + b"{}", None, "header claims"),
    "not JSON": (b"{{{{", b"", "not a JSON object"),
    "not UTF-8": (b'{"\xff\xfe": 1}', b"", "not a JSON object"),
    "a list": (b"[1, 2]", b"", "not a JSON object"),
    "deeply nested": (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", "nested"),
    "nested shape": (three({**F, "shape": [[1]]}), b"\0" * 192, "nested"),
    "named twice": (b'{"q": 1, "q": 2}', b"", "twice"),
    "entry is a number": ({"q": 1}, b"", "must have dtype"),
    "no offsets": ({"q": {"dtype": "F32", "shape": [1]}}, b"", "must have dtype"),
    "dtype is a number": (three({**F, "dtype": 4}), b"\0" * 192, "not a string"),
    "shape is a string": (three({**F, "shape": "1x2"}), b"\0" * 192, "not an array"),
    "negative extent": (three({**F, "shape": [-1, 2, 1, 8]}), b"\0" * 192, "not a count"),
    "fractional extent": (three({**F, "shape": [1.5, 2]}), b"\0" * 192, "not a count"),
    "one offset": (three({**F, "data_offsets": [0]}), b"\0" * 192, "[begin, end]"),
    "negative offset": (three({**F, "data_offsets": [-64, 0]}), b"\0" * 192, "not a count"),
    "end before begin": (three({**F, "data_offsets": [64, 0]}), b"\0" * 192, "before they begin"),
    "size is not that of the shape": (three({**F, "shape": [1, 2, 1, 9]}), b"\0" * 192, "needs 72 bytes"),
    "product past 2^64": (three({**F, "shape": [1 << 40, 1 << 40]}), b"\0" * 192, "too large"),
    "overlap": (three(F, k={**F, "data_offsets": [32, 96]}, v={**F, "data_offsets": [96, 160]}), b"\0" * 160, "overlap"),
    "same bytes twice": (three(F, k=F, v={**F, "data_offsets": [64, 128]}), b"\0" * 128, "overlap"),
    "gap": (three(F, k={**F, "data_offsets": [65, 129]}, v={**F, "data_offsets": [129, 193]}), b"\0" * 193, "belong to no tensor"),
    "rest": (three(F), b"\0" * 200, "belong to no tensor"),
    "one byte short": (three(F), b"\0" * 191, "truncated"),
    "no data": (three(F), b"", "truncated"),
    "no q": ({"k": F}, b"\0" * 64, "no tensor 'q'; it holds k"),
    "nothing": ({}, b"", "it holds none"),
    "integers": (three({**F, "dtype": "I32"}), b"\0" * 192, "I32"),
    "unknown dtype": (three({**F, "dtype": "Q7"}), b"\0" * 192, "Q7"),
    "rank 1": (three({**F, "shape": [16]}), b"\0" * 192, "4 axes"),
}


@pytest.mark.parametrize("name", BAD_SAFETENSORS)
def test_safetensors(tandem, tmp_path, name):
    header, data, words = BAD_SAFETENSORS[name]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(header) if data is None else write_raw_safetensors(path, header, data)
    tandem("run", path).refused("bad.safetensors", words)


def test_every_truncation(tandem, tmp_path):
    """Cut anywhere, a file is refused."""
    q, k, v = inputs((1, 2, 1, 8), (1, 3, 1, 8))
    whole = tmp_path / "whole.safetensors"
    write_safetensors(whole, {"q": q, "k": k, "v": v})
    content = whole.read_bytes()
    for length in range(0, len(content), 23):
        (tmp_path / "cut.safetensors").write_bytes(content[:length])
        tandem("run", tmp_path / "cut.safetensors").refused("cut.safetensors")


def test_random_bytes_in_headers(tandem, tmp_path):
    """A damaged header is refused or, where the damage is in a name that is not read, accepted; it never crashes."""
    q, k, v = inputs((1, 2, 1, 8), (1, 3, 1, 8))
    write_safetensors(tmp_path / "whole.safetensors", {"q": q, "k": k, "v": v})
    np.save(tmp_path / "whole.npy", q.astype(np.float32))
    rng = np.random.default_rng(5)
    for name, reach in (("whole.safetensors", 200), ("whole.npy", 90)):
        content = (tmp_path / name).read_bytes()
        for _ in range(40):
            damaged = bytearray(content)
            for place in rng.integers(0, reach, rng.integers(1, 4)):
                damaged[place] = rng.integers(0, 256)
            path = tmp_path / ("damaged." + name.split(".")[1])
            path.write_bytes(damaged)
            outcome = tandem("run", *([path] * (3 if name.endswith("npy") else 1)), "--backend", "cpu")
            assert outcome.code in (0, 2), (outcome.code, outcome.err, bytes(damaged[:reach]))
            assert len(outcome.err.strip().splitlines()) <= 1


def test_files_that_are_not_there(tandem, tmp_path):
    tandem("run", tmp_path / "no.safetensors").refused("no.safetensors: no such file")
    (tmp_path / "folder.safetensors").mkdir()
    tandem("run", tmp_path / "folder.safetensors").refused("not a regular file")
    (tmp_path / "data.bin").write_bytes(b"1")
    tandem("run", *[tmp_path / "data.bin"] * 3).refused(".bin")


def test_mixed_dtypes_and_ranks(tandem, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1, 2, 1, 8), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((1, 2, 1, 8), np.float16))
    np.save(tmp_path / "c.npy", np.zeros((2, 1, 8), np.float32))
    tandem("run", tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "a.npy").refused("fp32", "fp16", "--dtype")
    tandem("run", tmp_path / "a.npy", tmp_path / "c.npy", tmp_path / "a.npy").refused("same number of axes")
