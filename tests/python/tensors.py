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


def visible(seqlen_q, seqlen_k, causal=False, window=(-1, -1), chunk=0):
    """Which query sees which key: query i stands at position i + seqlen_k - seqlen_q."""
    position = np.arange(seqlen_q)[:, None] + seqlen_k - seqlen_q
    key = np.arange(seqlen_k)[None, :]
    seen = np.ones((seqlen_q, seqlen_k), bool)
    if causal:
        seen &= key <= position
    if window[0] >= 0:
        seen &= key >= position - window[0]
    if window[1] >= 0:
        seen &= key <= position + window[1]
    if chunk > 0:
        seen &= key // chunk == position // chunk
    return seen


def attention(q, k, v, causal=False, scale=None, window=(-1, -1), chunk=0, softcap=0.0, sinks=None):
    """O and LSE in fp64, for (batch, seqlen, heads, dim)."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    heads, group = q.shape[2], q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap > 0:
        scores = softcap * np.tanh(scores / softcap)
    scores = np.where(visible(q.shape[1], k.shape[1], causal, window, chunk), scores, -np.inf)
    # A sink is one more key, which everyone sees and whose value is 0.
    sink = np.full(heads, -np.inf) if sinks is None else np.broadcast_to(np.asarray(sinks, np.float64), heads)
    scores = np.concatenate([scores, np.broadcast_to(sink[None, :, None, None], (*scores.shape[:3], 1))], axis=-1)
    v = np.concatenate([v, np.zeros((v.shape[0], 1, *v.shape[2:]))], axis=1)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.where(np.isfinite(top), top, 0) + np.log(total))[..., 0]
    return np.einsum("bhij,bjhd->bihd", weights / np.where(total == 0, 1, total), v), lse


def ragged_attention(q, k, v, rows_q, rows_k, **options):
    """The same of sequences: rows_q and rows_k say for each (batch entry, first row, rows). Rows that no sequence has are 0, their LSE -inf."""
    out, lse = np.zeros((*q.shape[:3], v.shape[3])), np.full((q.shape[0], q.shape[2], q.shape[1]), -np.inf)
    for (batch_q, first_q, count_q), (batch_k, first_k, count_k) in zip(rows_q, rows_k):
        mine, keys = np.s_[batch_q : batch_q + 1, first_q : first_q + count_q], np.s_[batch_k : batch_k + 1, first_k : first_k + count_k]
        o, l = attention(q[mine], k[keys], v[keys], **options)
        out[mine], lse[batch_q, :, first_q : first_q + count_q] = o, l[0]
    return out, lse


def packed_rows(lengths, used=None):
    """Rows of sequences of those lengths that lie one after the other."""
    first = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    return [(0, int(f), int(n)) for f, n in zip(first, lengths if used is None else used)]


DTYPES = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}


def write_safetensors(path, tensors, dtype="F32", dtypes=None):
    """`tensors`: name -> numbers; or name -> words where dtype is BF16 and they are uint16 already. `dtypes`: of those that have another one."""
    header, data = {}, b""
    for name, values in tensors.items():
        own = (dtypes or {}).get(name, dtype)
        content = to_bf16(values) if own == "BF16" else np.ascontiguousarray(values, dtype=DTYPES[own])
        header[name] = {"dtype": own, "shape": list(content.shape), "data_offsets": [len(data), len(data) + content.nbytes]}
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
