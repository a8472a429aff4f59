#!/usr/bin/env python3
"""Writes kernels/ptx/wgmma_table.cuh: one wrapper for each element type, N and place of A of wgmma.mma_async.

    tools/generate_wgmma_table.py            rewrites the file
    tools/generate_wgmma_table.py --check    exits with 1 if the file is not what would be written
"""

import argparse
import pathlib
import sys

TARGET = pathlib.Path(__file__).resolve().parent.parent / "kernels/ptx/wgmma_table.cuh"
TYPES = {"fp16": "f16", "bf16": "bf16"}

HEADER = """\
// Written by tools/generate_wgmma_table.py; do not edit. wgmma.mma_async m64nNk16 for every N, with FP32 accumulators.
#pragma once
#include "ptx/dtype.hpp"
#include "ptx/platform.cuh"

namespace tandem::ptx {

// kTransposeB 0: B has k contiguous; 1: n contiguous. A has k contiguous. `accumulate` false: D = A B.
template <DType kType, int kN>
struct WgmmaTable;
"""


def wrapper(ptx_type: str, n: int, a_in_registers: bool) -> str:
    count = n // 2
    d = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if a_in_registers:
        name, signature = "rs", "const u32 (&a)[4]"
        a_text = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        a_inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
        operands, flags = 4, "p, 1, 1"
    else:
        name, signature = "ss", "u64 a"
        a_text, a_inputs, operands, flags = f"%{count}", '"l"(a)', 1, "p, 1, 1, 0"
    b, accumulate, transpose = count + operands, count + operands + 1, count + operands + 2
    return f"""\
  template <int kTransposeB>
  static TANDEM_DEVICE void {name}(float (&d)[{count}], {signature}, u64 b, bool accumulate) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{accumulate}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{ptx_type}.{ptx_type} {{{d}}}, {a_text}, %{b}, {flags}, %{transpose};\\n}}"
        : {outputs}
        : {a_inputs}, "l"(b), "r"(static_cast<int>(accumulate)), "n"(kTransposeB));
  }}
"""


def table() -> str:
    parts = [HEADER]
    for dtype, ptx_type in TYPES.items():
        for n in range(8, 257, 8):
            parts.append(f"\ntemplate <>\nstruct WgmmaTable<DType::{dtype}, {n}> {{\n{wrapper(ptx_type, n, False)}{wrapper(ptx_type, n, True)}}};\n")
    parts.append("\n}  // namespace tandem::ptx\n")
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    text = table()
    if not arguments.check:
        TARGET.write_text(text)
        return 0
    if TARGET.read_text() == text:
        return 0
    print(f"{TARGET.name} is not what this generator writes; run tools/generate_wgmma_table.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
