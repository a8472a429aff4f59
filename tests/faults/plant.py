#!/usr/bin/env python3
"""Makes kernels with faults out of kernels/ and table.py.

  plant.py --list                 names, one a line: the faults, then clean_<spec>
  plant.py --files                the files that it writes, under OUTPUT
  plant.py KERNELS OUTPUT         writes OUTPUT/<name>/kernel.cpp and, for a fault, OUTPUT/<name>/<the changed file>; and OUTPUT/faults.cpp

A text that is not found exactly once is an error: then the kernel has changed, and the fault must follow it.
"""

import pathlib
import sys

from table import FAULTS, SHAPES, SPECS


def write(path, text):
    """Leaves a file alone that would not change, so that nothing is compiled again for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def kernel_source(name, spec):
    return f"""// Written by plant.py.
#include "attention/forward.cuh"

extern "C" void tandem_fault_{name}(const void* params) {{
  tandem::attention::forward<tandem::ForwardSpec{SPECS[spec]}>(*static_cast<const tandem::ForwardParams*>(params));
}}
"""


def table_source(kernels):
    lines = ["// Written by plant.py.", '#include "faults/planted.hpp"', "", 'extern "C" {']
    lines += [f"void tandem_fault_{name}(const void* params);" for name, _, _ in kernels]
    lines += ["}", "", "namespace tandem::testing {", "", "std::vector<PlantedFault> planted_faults() {", "  return {"]
    for name, spec, expected in kernels:
        diagnoses = ", ".join(f'{{model::Fault::{fault}, "{part}"}}' for fault, part in expected)
        seqlen_q, seqlen_k, missing_columns = SHAPES[spec]
        lines.append(f'      planted<ForwardSpec{SPECS[spec]}>("{name}", tandem_fault_{name}, {seqlen_q}, {seqlen_k}, {missing_columns}, {{{diagnoses}}}),')
    return "\n".join(lines + ["  };", "}", "", "}  // namespace tandem::testing", ""])


def main():
    kernels = [(name, spec, expected) for name, spec, _, _, _, expected in FAULTS] + [(f"clean_{spec}", spec, []) for spec in SPECS]
    if sys.argv[1:] == ["--list"]:
        print("\n".join(name for name, _, _ in kernels))
        return
    if sys.argv[1:] == ["--files"]:
        print("\n".join([*(f"{name}/{file}" for name, _, file, *_ in FAULTS), *(f"{name}/kernel.cpp" for name, _, _ in kernels), "faults.cpp"]))
        return
    source, output = map(pathlib.Path, sys.argv[1:])
    for name, _, file, old, new, _ in FAULTS:
        text = (source / file).read_text()
        count = text.count(old)
        if count != 1:
            sys.exit(f"{name}: the text to change occurs {count} times in {file}, not once:\n{old}")
        write(output / name / file, text.replace(old, new))
    for name, spec, _ in kernels:
        write(output / name / "kernel.cpp", kernel_source(name, spec))
    write(output / "faults.cpp", table_source(kernels))


main()
