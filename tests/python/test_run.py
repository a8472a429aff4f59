"""`tandem run`: every file format, dtype, layout and rank, against attention in fp64."""
import numpy as np
import pytest
import safetensors.numpy

from tensors import attention, from_bf16, inputs, read_safetensors, to_bf16, write_safetensors

TOLERANCE = {"fp16": 2e-3, "bf16": 1.5e-2, "fp32": 1e-5}


def save_npy(folder, arrays):
    paths = []
    for name, array in zip("qkv", arrays):
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], array)
    return paths


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, kind", [("F16", "fp16"), ("BF16", "bf16"), ("F32", "fp32"), ("F64", "fp32")])
def test_safetensors(tandem, tmp_path, dtype, kind, causal):
    q, k, v = inputs((2, 37, 6, 40), (2, 51, 2, 40))
    write_safetensors(tmp_path / "in.safetensors", {"q": q, "k": k, "v": v}, dtype)
    out = tmp_path / "out.safetensors"
    outcome = tandem.ok("run", tmp_path / "in.safetensors", "--backend", "cpu", "--out", out, "--lse", out, "--check", "--json",
                        *(["--causal"] if causal else []))
    assert outcome.json["q"] == {"shape": [2, 37, 6, 40], "dtype": kind}
    assert outcome.json["check"]["ok"] and outcome.json["check"]["rows_checked"] == 2 * 37 * 6
    results = read_safetensors(out)
    expected, lse = attention(q, k, v, causal)
    assert results["out"].shape == (2, 37, 6, 40)
    np.testing.assert_allclose(results["out"], expected, atol=3 * TOLERANCE[kind])
    np.testing.assert_allclose(results["lse"], lse, atol=3 * TOLERANCE[kind])


def test_files_are_what_the_safetensors_package_writes_and_reads(tandem, tmp_path):
    q, k, v = (x.astype(np.float32) for x in inputs((1, 5, 2, 16), (1, 9, 2, 16)))
    safetensors.numpy.save_file({"q": q, "k": k, "v": v, "unused": np.zeros(3, np.int64)}, tmp_path / "in.safetensors", {"note": "metadata"})
    tandem.ok("run", tmp_path / "in.safetensors", "--backend", "cpu", "--out", tmp_path / "o.safetensors")
    out = safetensors.numpy.load_file(tmp_path / "o.safetensors")["out"]
    np.testing.assert_allclose(out, attention(q, k, v)[0], atol=1e-5)


@pytest.mark.parametrize("numpy_dtype, kind", [(np.float16, "fp16"), (np.float32, "fp32"), (np.float64, "fp32")])
def test_npy(tandem, tmp_path, numpy_dtype, kind):
    q, k, v = (x.astype(numpy_dtype) for x in inputs((1, 33, 4, 64), (1, 65, 1, 64)))
    paths = save_npy(tmp_path, (q, k, v))
    tandem.ok("run", *paths, "--backend", "cpu", "--check", "--out", tmp_path / "o.npy", "--lse", tmp_path / "lse.npy")
    expected, lse = attention(q, k, v)
    out = np.load(tmp_path / "o.npy")
    assert out.dtype == (np.float16 if kind == "fp16" else np.float32)
    np.testing.assert_allclose(out, expected, atol=TOLERANCE[kind])
    np.testing.assert_allclose(np.load(tmp_path / "lse.npy"), lse, atol=1e-4)


def test_npy_by_named_options(tandem, tmp_path):
    q, k, v = (x.astype(np.float32) for x in inputs((1, 7, 2, 8), (1, 9, 2, 8)))
    paths = save_npy(tmp_path, (q, k, v))
    tandem.ok("run", "--q", paths[0], "--k", paths[1], "--v", paths[2], "--backend", "cpu", "--out", tmp_path / "o.npy")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), attention(q, k, v)[0], atol=1e-5)


@pytest.mark.parametrize("view", ["<u2", "<V2"])
def test_bf16_in_npy_is_words(tandem, tmp_path, view):
    q, k, v = inputs((1, 20, 2, 32), (1, 30, 2, 32))
    words = [to_bf16(x) for x in (q, k, v)]
    paths = save_npy(tmp_path, [x.view(view) for x in words])
    tandem("run", *paths).refused("--dtype bf16")
    tandem("run", *paths, "--dtype", "fp16").refused("--dtype bf16")
    outcome = tandem.ok("run", *paths, "--dtype", "bf16", "--backend", "cpu", "--check", "--out", tmp_path / "o.npy")
    assert "widened to fp32" in outcome.out
    out = np.load(tmp_path / "o.npy")
    assert out.dtype == np.float32
    assert np.array_equal(from_bf16(to_bf16(out)), out)  # widened, nothing else
    np.testing.assert_allclose(out, attention(*map(from_bf16, words))[0], atol=1.5e-2)


def test_bfloat16_descriptor(tandem, tmp_path):
    q, k, v = inputs((1, 20, 2, 32), (1, 30, 2, 32))
    paths = save_npy(tmp_path, [to_bf16(x) for x in (q, k, v)])
    for path in paths:  # as some writers name it; the header has room to spare
        path.write_bytes(path.read_bytes().replace(b"'<u2'", b"'bfloat16'", 1).replace(b"     \n", b"\n", 1))
    assert tandem.ok("run", *paths, "--backend", "cpu", "--json").json["q"]["dtype"] == "bf16"


def test_conversion_rounds_once_to_nearest_even(tandem, tmp_path):
    # O is V where there is one key: what comes out is what the conversion made.
    rng = np.random.default_rng(3)
    values = rng.standard_normal(256) * 2.0 ** rng.integers(-30, 18, 256)
    values[:8] = [0, -0.0, 65504, 65519.99, 65520, 2.0**-24, 2.0**-25, 1 + 2.0**-11]
    v = values.reshape(1, 1, 1, 256)
    with np.errstate(over="ignore"):
        halves = v.astype(np.float16)
    for kind, expected in (("fp16", halves), ("bf16", from_bf16(to_bf16(v)))):
        write_safetensors(tmp_path / "in.safetensors", {"q": np.zeros_like(v), "k": np.zeros_like(v), "v": v}, "F64")
        tandem.ok("run", tmp_path / "in.safetensors", "--dtype", kind, "--backend", "cpu", "--out", tmp_path / "o.npy")
        out = np.load(tmp_path / "o.npy")
        finite = np.isfinite(expected.astype(np.float64))
        assert np.array_equal(out.astype(np.float64)[finite], expected.astype(np.float64)[finite])
        assert not np.isfinite(out[~finite]).any()


def test_layout_and_rank(tandem, tmp_path):
    q, k, v = (x.astype(np.float32) for x in inputs((2, 21, 4, 24), (2, 35, 2, 24)))
    expected, lse = attention(q, k, v, causal=True)

    def run(arrays, *options):
        paths = save_npy(tmp_path, arrays)
        tandem.ok("run", *paths, "--causal", "--backend", "cpu", "--out", tmp_path / "o.npy", "--lse", tmp_path / "l.npy", "--check", *options)
        return np.load(tmp_path / "o.npy"), np.load(tmp_path / "l.npy")

    out, out_lse = run([x.transpose(0, 2, 1, 3) for x in (q, k, v)], "--layout", "bhsd")  # these are saved in Fortran order or not, as numpy likes
    np.testing.assert_allclose(out, expected.transpose(0, 2, 1, 3), atol=1e-5)
    np.testing.assert_allclose(out_lse, lse, atol=1e-4)
    out, out_lse = run([x[1] for x in (q, k, v)])
    np.testing.assert_allclose(out, expected[1], atol=1e-5)
    np.testing.assert_allclose(out_lse, lse[1], atol=1e-4)
    out, out_lse = run([x[1].transpose(1, 0, 2) for x in (q, k, v)], "--layout", "bhsd")
    np.testing.assert_allclose(out, expected[1].transpose(1, 0, 2), atol=1e-5)
    out, out_lse = run([q[0, :, 1], k[0, :, 0], v[0, :, 0]])
    np.testing.assert_allclose(out, expected[0, :, 1], atol=1e-5)
    np.testing.assert_allclose(out_lse, lse[0, 1], atol=1e-4)


def test_fortran_order(tandem, tmp_path):
    q, k, v = (x.astype(np.float32) for x in inputs((2, 11, 2, 16), (2, 13, 2, 16)))
    paths = save_npy(tmp_path, [np.asfortranarray(x) for x in (q, k, v)])
    assert b"'fortran_order': True" in paths[0].read_bytes()[:128]
    tandem.ok("run", *paths, "--backend", "cpu", "--out", tmp_path / "o.npy")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), attention(q, k, v)[0], atol=1e-5)


def test_npy_versions_2_and_3(tandem, tmp_path):
    q, k, v = (x.astype(np.float32) for x in inputs((1, 4, 1, 8), (1, 6, 1, 8)))
    for version in ((2, 0), (3, 0)):
        paths = []
        for name, array in zip("qkv", (q, k, v)):
            paths.append(tmp_path / f"{name}.npy")
            with open(paths[-1], "wb") as file:
                np.lib.format.write_array(file, array, version=version)
        tandem.ok("run", *paths, "--backend", "cpu", "--out", tmp_path / "o.npy")
        np.testing.assert_allclose(np.load(tmp_path / "o.npy"), attention(q, k, v)[0], atol=1e-5)


def test_scale_names_and_value_width(tandem, tmp_path):
    q, k, v = inputs((1, 12, 4, 32), (1, 20, 2, 32), (1, 20, 2, 16))
    write_safetensors(tmp_path / "in.safetensors", {"query": q, "key": k, "value": v})
    tandem.ok("run", tmp_path / "in.safetensors", "--q-name", "query", "--k-name", "key", "--v-name", "value", "--scale", "0.5", "--backend", "cpu",
              "--check", "--out", tmp_path / "o.npy")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), attention(q, k, v, scale=0.5)[0], atol=1e-5)


@pytest.mark.parametrize("seqlen_q, seqlen_k", [(5, 0), (0, 5), (0, 0), (9, 4)])
def test_empty_and_unseen(tandem, tmp_path, seqlen_q, seqlen_k):
    q, k, v = inputs((1, seqlen_q, 2, 16), (1, seqlen_k, 2, 16))
    write_safetensors(tmp_path / "in.safetensors", {"q": q, "k": k, "v": v})
    out = tmp_path / "o.safetensors"
    tandem.ok("run", tmp_path / "in.safetensors", "--causal", "--backend", "cpu", "--check", "--out", out, "--lse", out)
    results = read_safetensors(out)
    expected, lse = attention(q, k, v, causal=True)
    np.testing.assert_allclose(results["out"], expected, atol=1e-5)
    np.testing.assert_allclose(results["lse"], lse, atol=1e-5)


def test_large_problems_are_sampled(tandem, tmp_path):
    q, k, v = inputs((1, 3000, 4, 128), (1, 3000, 4, 128))
    write_safetensors(tmp_path / "in.safetensors", {"q": q, "k": k, "v": v}, "BF16")
    outcome = tandem.ok("run", tmp_path / "in.safetensors", "--causal", "--check", "--backend", "cpu", "--repeat", 1)
    assert "a sample of" in outcome.out


def test_the_sample(tandem, sample):
    outcome = tandem.ok("run", sample, "--causal", "--check")
    for word in ("backend", "schedule", "time", "right"):
        assert word in outcome.out
    assert sample.stat().st_size < 300_000


def test_sample_is_what_the_script_makes(tmp_path, sample):
    import subprocess
    import sys

    subprocess.run([sys.executable, sample.with_name("make_sample.py"), tmp_path / "again.safetensors"], check=True)
    assert (tmp_path / "again.safetensors").read_bytes() == sample.read_bytes()


def test_unwritable_output(tandem, sample, tmp_path):
    tandem("run", sample, "--backend", "cpu", "--out", tmp_path / "no" / "where.npy").refused("where.npy", "cannot be written")
    tandem("run", sample, "--backend", "cpu", "--out", tmp_path / "o.txt").refused(".txt", ".npy and .safetensors")
    tandem("run", sample, "--out", tmp_path / "o.npy", "--lse", tmp_path / "o.npy").refused("--out and --lse")
    assert list(tmp_path.glob("*.tmp.*")) == []


def test_refusals_of_the_library_come_through(tandem, tmp_path):
    q, k, v = inputs((1, 4, 3, 16), (1, 6, 2, 16))
    write_safetensors(tmp_path / "in.safetensors", {"q": q, "k": k, "v": v})
    tandem("run", tmp_path / "in.safetensors").refused("3 heads", "multiple")
    write_safetensors(tmp_path / "in.safetensors", {"q": q[..., :8], "k": k, "v": v})
    tandem("run", tmp_path / "in.safetensors").refused("dim")


def test_usage_errors(tandem, sample, tmp_path):
    tandem().refused("subcommand")
    tandem("walk").refused("walk")
    tandem("run").refused("FILE")
    tandem("run", sample, sample).refused("FILE")
    tandem("run", sample, sample, sample).refused(".npy")
    tandem("run", sample, "--q", sample).refused("use either")
    tandem("run", "--q", sample).refused("--k is missing")
    tandem("run", sample, "--backend", "abacus").refused("--backend", "abacus")
    tandem("run", sample, "--scale", "-1").refused("softmax_scale", "-1")
    tandem("run", sample, "--scale", "wide").refused("wide")
    assert tandem("--version").out.startswith("tandem ")
    assert tandem("run", "--help").code == 0
