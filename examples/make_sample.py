#!/usr/bin/env python3
"""Makes sample.safetensors: Q, K and V in bf16 for `tandem run`, the same bytes every time.

Two batch entries, four query heads that share one KV head, more keys than queries, lengths that are multiples of no tile.
  python3 examples/make_sample.py [FILE]
"""
import json
import pathlib
import struct
import sys

import numpy as np

SHAPES = {"q": (2, 123, 4, 64), "k": (2, 187, 1, 64), "v": (2, 187, 1, 64)}  # (batch, seqlen, heads, dim)


def bf16_bytes(values):
    """The upper halves of fp32 words, rounded to nearest even. numpy has no bf16, so the file is put together here."""
    words = values.astype("<f4").view("<u4")
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("<u2").tobytes()


def main():
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("sample.safetensors")
    random = np.random.Generator(np.random.PCG64(2024))
    header, data = {"__metadata__": {"made_by": "examples/make_sample.py", "layout": "batch, seqlen, heads, dim"}}, b""
    for name, shape in SHAPES.items():
        content = bf16_bytes(random.standard_normal(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
