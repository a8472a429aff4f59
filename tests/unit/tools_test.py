#!/usr/bin/env python3
"""The tools that judge kernels and records, on input made by hand."""

import argparse
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/jit")]

import compile_budget  # noqa: E402
import record_status  # noqa: E402
import sass_summary  # noqa: E402
import sources_digest  # noqa: E402


class Assembler:
    """Writes what nvdisasm would."""

    def __init__(self, name: str = "tandem_forward"):
        self.lines = [f"{name}:", f".text.{name}:"]
        self.address = 0

    def label(self, name: str) -> "Assembler":
        self.lines.append(f".{name}:")
        return self

    def add(self, *instructions: str) -> "Assembler":
        for instruction in instructions:
            self.lines.append(f"        /*{self.address:04x}*/                   {instruction} ;")
            self.address += 16
        return self

    def gemm(self, count: int, source: str, committed_each: bool = False) -> "Assembler":
        for i in range(count):
            last = i == count - 1 or committed_each
            self.add(f"HGMMA.64x16x16.F32.BF16 R24, {source}, R24" + (", gsb0" if last else ""))
            if committed_each:
                self.add("WARPGROUP.DEPBAR.LE gsb0, 0x0")
        return self

    def summary(self) -> dict:
        (function,) = sass_summary.parse("\n".join(self.lines))
        return sass_summary.summarize_function(function)


SPEC = {"head_dim": "32", "block_n": "16", "causal": "false"}


def step(code: Assembler, label: str, masked: bool = False, serialised: bool = False) -> None:
    """A loop over key blocks: waits (spinning out of line), QK, a rescale that may be skipped, PV, softmax."""
    code.label(label)
    code.add("BAR.SYNC.DEFER_BLOCKING R1, R2", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", f"@!P0 BRA `(.{label}_spin)").label(f"{label}_ready")
    code.add("WARPGROUP.ARRIVE").gemm(2, "R88, gdesc[UR4]", serialised)
    code.add(f"@!P1 BRA `(.{label}_kept)", "FMUL R24, R24, R9", "FMUL R25, R25, R9").label(f"{label}_kept")
    code.gemm(1, "R90, gdesc[UR8].tnspB", serialised)
    code.add("WARPGROUP.DEPBAR.LE gsb0, 0x1")
    if masked:
        code.add(*["ISETP.GE.AND P2, PT, R1, R2, PT", "FSEL R1, R1, -INF , P2"] * 8)
    code.add(*["FMNMX R2, R2, R3, !PT"] * 8)
    code.add(*["FFMA R4, R4, R5, -R6", "MUFU.EX2 R4, R4", "FADD R7, R7, R4"] * 5)
    code.add("WARPGROUP.DEPBAR.LE gsb0, 0x0", "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ")
    code.add(*["FFMA R4, R4, R5, -R6", "MUFU.EX2 R4, R4", "FADD R7, R7, R4"] * 3, "F2FP.BF16.F32.PACK_AB R8, R4, R4")
    code.add(f"@P3 BRA `(.{label})")


def spin(code: Assembler, label: str) -> None:
    code.label(f"{label}_spin").add("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", f"@!P0 BRA `(.{label}_spin)", f"BRA `(.{label}_ready)")


def kernel(masked: bool = False, serialised: bool = False, spills: bool = False) -> dict:
    code = Assembler().add("S2R R3, SR_TID.X").label("L_tile").add("WARPGROUP.ARRIVE").gemm(2, "R88, gdesc[UR4]").add("WARPGROUP.DEPBAR.LE gsb0, 0x0")
    labels = ["L_masked", "L_step"] if masked else ["L_step"]
    for label in labels:
        step(code, label, masked=label == "L_masked", serialised=serialised)
    code.gemm(1, "R90, gdesc[UR8].tnspB").add("WARPGROUP.DEPBAR.LE gsb0, 0x0", "STG.E [R2], R3", "@P5 BRA `(.L_tile)")
    if spills:
        code.add("STL [R1], R2", "LDL R2, [R1]")
    code.add("EXIT")
    for label in labels:
        spin(code, label)
    return code.summary()


class SassSummary(unittest.TestCase):
    def test_finds_the_parts_of_a_kernel(self):
        self.assertEqual([part["role"] for part in kernel()["parts"]], ["before the steps", "step", "after the steps"])
        self.assertEqual([part["role"] for part in kernel(masked=True)["parts"]], ["before the steps", "masked step", "step", "after the steps"])

    def test_counts_what_every_step_does_apart_from_what_a_branch_may_skip(self):
        (found,) = sass_summary.steps_of(kernel())
        self.assertEqual(found["fp32"], 16)
        self.assertEqual(found["exps"], 8)
        self.assertEqual(found["wgmmas"], 3)
        self.assertEqual(found["skippable"], {"instructions": 5, "fp32": 2})  # the rescale, and the spin out of line
        self.assertEqual(sum(found["mix"].values()), found["instructions"])
        self.assertEqual(found["mix"]["tensor"], 3)
        self.assertEqual(found["mix"]["mufu"], 8)

    def test_tells_the_gemms_apart(self):
        (found,) = sass_summary.steps_of(kernel())
        self.assertEqual([(group["gemm"], group["count"], group["a_in_registers"]) for group in found["groups"]], [("QK", 2, True), ("PV", 1, True)])

    def test_says_where_each_wait_stands(self):
        (found,) = sass_summary.steps_of(kernel())
        waits = [(event["event"], event["wgmmas"], event["exps"]) for event in found["events"] if "wgmma wait" in event["event"]]
        self.assertEqual(waits, [("wgmma wait 1", 3, 0), ("wgmma wait 0", 3, 5)])
        self.assertEqual(found["events"][0]["event"], "named barrier sync")

    def test_writes_runs_as_counts(self):
        (found,) = sass_summary.steps_of(kernel())
        self.assertIn("WAIT1 m8 f e + f e +", found["sequence"])
        self.assertTrue(found["sequence"].endswith("c"))

    def test_finds_nothing_wrong_with_a_good_kernel(self):
        self.assertEqual(sass_summary.faults(kernel(), SPEC), [])
        self.assertEqual(sass_summary.faults(kernel(masked=True), SPEC | {"causal": "true"}), [])

    def test_finds_spills(self):
        self.assertEqual(sass_summary.faults(kernel(spills=True), SPEC), ["spills: 1 STL, 1 LDL"])

    def test_finds_serialised_wgmmas(self):
        found = sass_summary.faults(kernel(serialised=True), SPEC)
        self.assertTrue(any("serialised" in fault for fault in found), found)
        self.assertTrue(any("waits" in fault for fault in found), found)

    def test_finds_a_step_that_does_other_work_than_its_spec(self):
        found = sass_summary.faults(kernel(), SPEC | {"head_dim": "64", "block_n": "32"})
        self.assertEqual(found, ["step: 3 WGMMAs, 6 are the work of a step", "step: 8 exponentials, 16 are the work of a step"])

    def test_misses_a_masked_step_in_a_causal_kernel(self):
        self.assertEqual(sass_summary.faults(kernel(), SPEC | {"causal": "true"}), ["no loop is a masked step"])

    def test_misses_all_steps_where_there_is_no_loop(self):
        self.assertEqual(sass_summary.faults(Assembler().add("NOP", "EXIT").summary(), SPEC), ["no loop is a step"])


LIMITS = argparse.Namespace(seconds=2.0, megabytes=250.0, tries=3)
GOOD = {"name": "k", "seconds": 1.0, "peak_mb": 100.0, "registers": 168, "spill_bytes": 0, "advisories": [], "cached": False, "spec": ""}


class CompileBudget(unittest.TestCase):
    def test_passes_a_kernel_within_budget(self):
        self.assertEqual(compile_budget.complaints(GOOD, LIMITS), [])

    def test_complains_of_everything_that_is_over_it(self):
        for change, complaint in [
            ({"seconds": 2.01}, "took 2.01 s"),
            ({"peak_mb": 251.0}, "took 251 MB"),
            ({"peak_mb": 0.0}, "took 0 MB"),
            ({"spill_bytes": 4}, "spills 4 bytes"),
            ({"advisories": ["(C7510) serialised"]}, "ptxas says (C7510)"),
            ({"cached": True, "seconds": 0.0}, "was not compiled"),
            ({"error": "no such header"}, "did not compile: no such header"),
        ]:
            (found,) = compile_budget.complaints(GOOD | change, LIMITS)
            self.assertIn(complaint, found)


class Digests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for name in ("kernels/entry/a.cu", "src/b.cpp"):
            self.write(name, "text")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_change_with_content_and_name_of_every_source(self):
        seen = {sources_digest.sources_digest(self.root)}
        for name, text in [("src/b.cpp", "other"), ("kernels/entry/a.cu", "other"), ("src/c.cpp", "text"), ("kernels/new.cuh", "")]:
            self.write(name, text)
            seen.add(sources_digest.sources_digest(self.root))
        (self.root / "src/c.cpp").rename(self.root / "src/d.cpp")
        seen.add(sources_digest.sources_digest(self.root))
        self.assertEqual(len(seen), 6)

    def test_do_not_change_with_what_is_no_source(self):
        before = sources_digest.sources_digest(self.root)
        for name in ("README.md", "model/m.cpp", "src/.hidden", "src/b.cpp~", "src/__pycache__/x.pyc"):
            self.write(name, "text")
        self.assertEqual(sources_digest.sources_digest(self.root), before)

    def test_of_kernels_change_with_kernels_alone(self):
        before = sources_digest.kernels_digest(self.root)
        self.write("src/b.cpp", "other")
        self.write("kernels/notes.md", "text")
        self.assertEqual(sources_digest.kernels_digest(self.root), before)
        self.write("kernels/entry/a.cu", "other")
        self.assertNotEqual(sources_digest.kernels_digest(self.root), before)


class Records(unittest.TestCase):
    def test_that_are_no_json_objects_are_read_as_empty(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "record.json"
            for text, expected in [("", {}), ("[1]", {}), ("{", {}), (json.dumps({"date": "2025"}), {"date": "2025"})]:
                path.write_text(text)
                self.assertEqual(record_status.read(path), expected)


if __name__ == "__main__":
    unittest.main()
