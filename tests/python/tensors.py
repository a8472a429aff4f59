"""Tensors for the tests: files of every kind, bf16 without a library for it, and attention in fp64."""
import json
import struct

import numpy as np


def to_bf16(values):
    """Words of bf16, rounded to nearest even."""
    words = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("<u2")


def from_bf16(words):
    return (np.asarray(words, dtype="<u4") << 16).view("<f4")


def inputs(q_shape, k_shape, v_shape=None, seed=0):
    """Normal numbers of shapes (batch, seqlen, heads, dim)."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for shape in (q_shape, k_shape, v_shape or k_shape)]


def attention(q, k, v, causal=False, scale=None):
    """O and LSE in fp64, for (batch, seqlen, heads, dim)."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None, :]
        scores = np.where(columns <= rows + k.shape[1] - q.shape[1], scores, -np.inf)
    if k.shape[1] == 0:
        return np.zeros((*q.shape[:3], v.shape[3])), np.full(scores.shape[:3], -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(top), top, 0) + np.log(total))[..., 0]
    return np.einsum("bhij,bjhd->bihd", weights / np.where(total == 0, 1, total), v), lse


DTYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


def write_safetensors(path, tensors, dtype="F32"):
    """`tensors`: name -> numbers; or name -> words where dtype is BF16 and they are uint16 already."""
    header, data = {}, b""
    for name, values in tensors.items():
        content = to_bf16(values) if dtype == "BF16" else np.ascontiguousarray(values, dtype=DTYPES[dtype])
        header[name] = {"dtype": dtype, "shape": list(content.shape), "data_offsets": [len(data), len(data) + content.nbytes]}
        data += content.tobytes()
    write_raw_safetensors(path, header, data)


def write_raw_safetensors(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = from_bf16(values) if entry["dtype"] == "BF16" else values
    return tensors
