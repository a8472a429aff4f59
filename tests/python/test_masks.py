"""Windows, chunks, softcap, sinks and ragged batches on the command line: the results against attention in fp64, and what is refused."""
import numpy as np
import pytest

from tensors import attention, inputs, packed_rows, ragged_attention, read_safetensors, visible, write_safetensors

LENGTHS = {name: "I32" for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")}


def run(tandem, tmp_path, tensors, *options, dtypes=None):
    """The results of a call on these tensors, which the command itself has compared with fp64."""
    write_safetensors(tmp_path / "in.safetensors", tensors, dtypes={**LENGTHS, **(dtypes or {})})
    out = tmp_path / "out.safetensors"
    outcome = tandem.ok("run", tmp_path / "in.safetensors", "--backend", "cpu", "--out", out, "--lse", out, "--check-all", "--json", *options)
    assert outcome.json["check"]["ok"], outcome.json["check"]
    results = read_safetensors(out)
    return results["out"], results["lse"], outcome.json


def close(results, expected, shape=None):
    out, lse = results[:2]
    np.testing.assert_allclose(out, expected[0] if shape is None else expected[0].reshape(shape), atol=2e-5)
    np.testing.assert_allclose(lse, expected[1], atol=1e-4)


MASKS = [
    (["--window", "7,3"], {"window": (7, 3)}),
    (["--window", "-1,0"], {"window": (-1, 0)}),
    (["--window", "5,-1", "--causal"], {"window": (5, -1), "causal": True}),
    (["--window", "0,0"], {"window": (0, 0)}),
    (["--window", "9223372036854775807,9223372036854775807"], {}),
    (["--attention-chunk", 16], {"chunk": 16}),
    (["--attention-chunk", 10, "--causal", "--window", "4,-1"], {"chunk": 10, "causal": True, "window": (4, -1)}),
    (["--softcap", 2.5], {"softcap": 2.5}),
    (["--softcap", 0], {}),
    (["--sinks", "0.5"], {"sinks": 0.5}),
    (["--sinks", "1,-2,3,0.25", "--causal"], {"sinks": [1, -2, 3, 0.25], "causal": True}),
    (["--sm-margin", 4, "--batch-invariant"], {}),
]


@pytest.mark.parametrize("flags, options", MASKS, ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "")
@pytest.mark.parametrize("seqlen_q, seqlen_k", [(33, 50), (50, 33), (9, 0)])
def test_masks(tandem, tmp_path, flags, options, seqlen_q, seqlen_k):
    q, k, v = inputs((2, seqlen_q, 4, 16), (2, seqlen_k, 2, 16))
    close(run(tandem, tmp_path, {"q": q, "k": k, "v": v}, *flags), attention(q, k, v, **options))


def test_masks_are_told(tandem, tmp_path):
    q, k, v = inputs((1, 20, 4, 16), (1, 30, 2, 16))
    flags = ["--causal", "--window", "8,-1", "--softcap", "30", "--sinks", "1", "--attention-chunk", "12"]
    told = run(tandem, tmp_path, {"q": q, "k": k, "v": v}, *flags)[2]
    assert (told["causal"], told["window"], told["softcap"], told["sinks"], told["attention_chunk"]) == (True, [8, -1], 30, True, 12)
    text = tandem.ok("run", tmp_path / "in.safetensors", "--backend", "cpu", *flags).out
    for word in ("causal", "window 8 to the left", "softcap 30", "sinks", "chunks of 12"):
        assert word in text


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("rank", [3, 4])
def test_packed(tandem, tmp_path, by_file, rank):
    lengths_q, lengths_k = [5, 0, 33, 17], [9, 4, 33, 0]
    q, k, v = inputs((1, sum(lengths_q), 4, 16), (1, sum(lengths_k), 2, 16))
    expected = ragged_attention(q, k, v, packed_rows(lengths_q), packed_rows(lengths_k), causal=True)
    tensors = {"q": q, "k": k, "v": v} if rank == 4 else {"q": q[0], "k": k[0], "v": v[0]}
    flags = ["--seqlens-q", ",".join(map(str, lengths_q)), "--seqlens-k", ",".join(map(str, lengths_k))]
    if by_file:
        flags = []
        tensors |= {"cu_seqlens_q": np.cumsum([0] + lengths_q), "cu_seqlens_k": np.cumsum([0] + lengths_k)}
    out, lse, told = run(tandem, tmp_path, tensors, "--causal", *flags)
    assert told["sequences"] == 4
    np.testing.assert_allclose(out.reshape(expected[0].shape), expected[0], atol=2e-5)
    np.testing.assert_allclose(lse.reshape(expected[1].shape), expected[1], atol=1e-4)
    text = tandem.ok("run", tmp_path / "in.safetensors", "--backend", "cpu", *flags).out
    assert "4 sequences" in text and "5,0,33,17" in text and "9,4,33,0" in text


def test_what_lies_outside_does_not_matter(tandem, tmp_path):
    lengths_q, lengths_k, used_q, used_k = [20, 31], [40, 12], [20, 7], [29, 12]
    q, k, v = inputs((1, 60, 4, 16), (1, 70, 2, 16))
    rows_q, rows_k = packed_rows(lengths_q, used_q), packed_rows(lengths_k, used_k)
    options = {"window": (6, 9), "softcap": 3.0, "sinks": [0.5, 1, -1, 2]}
    expected = ragged_attention(q, k, v, rows_q, rows_k, **options)
    for tensor, rows in ((q, rows_q), (k, rows_k), (v, rows_k)):
        inside = np.zeros(tensor.shape[1], bool)
        for _, first, count in rows:
            inside[first : first + count] = True
        tensor[:, ~inside] = np.nan
    tensors = {"q": q, "k": k, "v": v, "seqused_q": used_q, "seqused_k": used_k, "cu_seqlens_q": np.cumsum([0] + lengths_q),
               "cu_seqlens_k": np.cumsum([0] + lengths_k), "sinks": options["sinks"]}
    results = run(tandem, tmp_path, tensors, "--window", "6,9", "--softcap", 3)
    close(results, expected)
    assert not results[0][0, 27:51].any() and not results[0][0, 51:].any()


def test_used_lengths_of_a_batch(tandem, tmp_path):
    used_q, used_k = [30, 0, 12], [50, 9, 1]
    q, k, v = inputs((3, 30, 2, 16), (3, 50, 2, 16))
    expected = ragged_attention(q, k, v, [(b, 0, n) for b, n in enumerate(used_q)], [(b, 0, n) for b, n in enumerate(used_k)], causal=True)
    for b in range(3):
        q[b, used_q[b] :] = k[b, used_k[b] :] = v[b, used_k[b] :] = np.nan
    close(run(tandem, tmp_path, {"q": q, "k": k, "v": v}, "--causal", "--seqused-q", "30,0,12", "--seqused-k", "50,9,1"), expected)


def test_one_side_packed(tandem, tmp_path):
    q, k, v = inputs((1, 24, 4, 16), (3, 40, 2, 16))
    lengths = [7, 16, 1]
    expected = ragged_attention(q, k, v, packed_rows(lengths), [(b, 0, 40) for b in range(3)], causal=True)
    close(run(tandem, tmp_path, {"q": q, "k": k, "v": v}, "--causal", "--seqlens-q", "7,16,1"), expected)
    close(run(tandem, tmp_path, {"q": q[0], "k": k, "v": v}, "--causal", "--seqlens-q", "7,16,1"), (expected[0][0], expected[1][0]))
    q, k, v = inputs((3, 40, 4, 16), (1, 24, 2, 16))
    expected = ragged_attention(q, k, v, [(b, 0, 40) for b in range(3)], packed_rows(lengths))
    close(run(tandem, tmp_path, {"q": q, "k": k, "v": v}, "--seqlens-k", "7,16,1"), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_lengths_and_sinks_from_npy(tandem, tmp_path, dtype):
    q, k, v = (x.astype(np.float32) for x in inputs((1, 20, 2, 16), (1, 30, 2, 16)))
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, tensor in zip(paths, (q, k, v)):
        np.save(path, tensor)
    np.save(tmp_path / "lengths_q.npy", np.array([5, 15], dtype))
    np.save(tmp_path / "lengths_k.npy", np.array([20, 10], dtype))
    np.save(tmp_path / "sinks.npy", np.array([1.5, -0.5], np.float32))
    tandem.ok("run", *paths, "--backend", "cpu", "--check", "--seqlens-q", tmp_path / "lengths_q.npy", "--seqlens-k", tmp_path / "lengths_k.npy",
              "--sinks", tmp_path / "sinks.npy", "--out", tmp_path / "o.npy")
    expected = ragged_attention(q, k, v, packed_rows([5, 15]), packed_rows([20, 10]), sinks=[1.5, -0.5])
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), expected[0], atol=2e-5)


def test_an_option_goes_before_the_file(tandem, tmp_path):
    q, k, v = inputs((1, 20, 2, 16), (1, 30, 2, 16))
    tensors = {"q": q, "k": k, "v": v, "sinks": [0.0, 0.0], "cu_seqlens_q": [0, 10, 20], "cu_seqlens_k": [0, 15, 30]}
    expected = ragged_attention(q, k, v, packed_rows([3, 17]), packed_rows([15, 15]), sinks=4.0)
    close(run(tandem, tmp_path, tensors, "--seqlens-q", "3,17", "--sinks", "4"), expected)


def test_refusals(tandem, tmp_path):
    q, k, v = inputs((1, 20, 2, 16), (1, 30, 2, 16))
    path = tmp_path / "in.safetensors"

    def refused(flags, *words, **more):
        write_safetensors(path, {"q": q, "k": k, "v": v, **more}, dtypes={**LENGTHS, "odd": "I32"})
        tandem("run", path, "--backend", "cpu", *flags).refused(*words)

    refused(["--window", "3"], "--window", "LEFT,RIGHT")
    refused(["--window", "3,x"], "--window", "x")
    refused(["--softcap", "-1"], "--softcap", "-1")
    refused(["--softcap", "inf"], "--softcap", "inf")
    refused(["--attention-chunk", "-3"], "-3")
    refused(["--sinks", "1,2,3"], "3 numbers", "2 heads")
    refused(["--sinks", "1,a"], "--sinks", "a")
    refused(["--seqlens-q", "10,10,10"], "add up to 30", "20 rows")
    refused(["--seqlens-q", "10,-1"], "--seqlens-q", "-1")
    refused(["--seqlens-q", "10,"], "--seqlens-q")
    refused(["--seqlens-q", "10,10", "--seqlens-k", "30"], "2", "1")
    refused(["--seqlens-q", "10,10"], "2 packed sequences", "batch axis of 1")
    refused(["--seqused-k", "31"], "seqused_k", "31", "30")
    refused(["--seqused-q", "1,2"], "seqused_q", "2 lengths")
    refused([], "cu_seqlens_q", "rise", cu_seqlens_q=[0, 9, 5])
    refused([], "cu_seqlens_q", "0", cu_seqlens_q=[1, 20])
    refused([], "-5", cu_seqlens_q=[0, -5])
    refused([], "one axis", seqused_k=[[30]])
    refused(["--q-name", "odd"], "int32", odd=np.zeros((1, 20, 2, 16)))
    refused(["--sinks", str(tmp_path / "none.npy")], "none.npy: no such file")


CASES = ["window=5:9,causal=1", "attention_chunk=37,seqlen_q=100,seqlen_k=90", "softcap=7", "sinks=1,seqlen_k=0", "seqlens_q=9:0:40,seqlens_k=30:5:41,causal=1",
         "seqlens_q=9:20,seqlens_k=30:20,seqlen_q=60,seqlen_k=80,dtype=fp16,layout=padded", "batch=2,seqused_k=100:3,layout=slice",
         "batch=2,seqused_k=100:3,layout=expanded", "seqlens_q=50:60,seqlens_k=70:80,seqlen_q=100,seqlen_k=120", "seqlens_q=,seqlens_k=,seqlen_q=20"]


def test_check_cases(tandem):
    found = tandem.ok("check", "--backend", "cpu", "--json", *[word for case in CASES for word in ("--case", case)]).json
    for outcome in found["outcomes"]:  # any case can be run again by its text
        assert tandem.ok("check", "--backend", "cpu", "--json", "--case", outcome["case"]).json["outcomes"] == [outcome]


def test_check_options_are_laid_over_cases(tandem):
    case = "seqlen_q=20,seqlen_k=30"
    (outcome,) = tandem.ok("check", "--backend", "cpu", "--json", "--case", case, "--window", "3,4", "--softcap", 9, "--sinks", 1, "--seqlens-q", "5,15",
                           "--seqused-k", "7,40").json["outcomes"]
    for field in ("batch=2", "window=3:4", "softcap=9", "sinks=1", "seqlens_q=5:15", "seqused_k=7:40", "seqlen_k=40"):
        assert field in outcome["case"].split(",")


def test_check_refuses(tandem):
    tandem("check", "--case", "window=3").refused("window", "LEFT:RIGHT")
    tandem("check", "--case", "sinks=2").refused("sinks")
    tandem("check", "--case", "batch=3,seqused_k=1:2").refused("seqused_k", "2 lengths", "3 sequences")
    tandem("check", "--case", "softcap=-1").refused("softcap")


def whole_blocks(seen, block_m, block_n):
    """Blocks that some query of a tile sees, and those of which every query sees every key. The last block is looked at where it is not full."""
    some = every = 0
    for row in range(0, seen.shape[0], block_m):
        for key in range(0, seen.shape[1], block_n):
            block = seen[row : row + block_m, key : key + block_n]
            some += block.any()
            every += block.all() and block.shape[1] == block_n
    return some, every


@pytest.mark.parametrize("flags, options", [([], {}), (["--causal"], {"causal": True}), (["--window", "300,100"], {"window": (300, 100)}),
                                            (["--window", "700,-1", "--causal"], {"window": (700, -1), "causal": True}),
                                            (["--attention-chunk", 512, "--causal"], {"chunk": 512, "causal": True})])
@pytest.mark.parametrize("seqlen_q, seqlen_k", [(1536, 1536), (768, 2304), (1000, 1900)])
def test_explain_counts_blocks(tandem, flags, options, seqlen_q, seqlen_k):
    found = tandem.ok("explain", "--seqlen-q", seqlen_q, "--seqlen-k", seqlen_k, *flags, "--json").json
    blocks, block_m, block_n = found["key_blocks"], 64 * found["spec"]["consumer_warpgroups"], found["spec"]["block_n"]
    tiles = -(-seqlen_q // block_m)
    assert blocks["tiles"] == tiles and blocks["rectangle"] == tiles * -(-seqlen_k // block_n)
    some, every = whole_blocks(visible(seqlen_q, seqlen_k, **options), block_m, block_n)
    # Rows past the last query of the last tile count as queries.
    assert some <= blocks["visited"] <= some + 1 + block_m // block_n
    assert every - 1 - block_m // block_n <= blocks["whole"] <= every + 1
    assert blocks["visited"] == blocks["masked"] + blocks["whole"] == blocks["rectangle"] - blocks["skipped"]
    assert blocks["saved"] == pytest.approx(blocks["skipped"] / blocks["rectangle"])


def test_explain_a_ragged_batch(tandem):
    flags = ["--seqlens-q", "100,300,1", "--seqlens-k", "700,300,5000", "--heads", 8, "--heads-kv", 2, "--causal", "--softcap", 20, "--sinks", 1]
    found = tandem.ok("explain", *flags, "--json").json
    assert found["spec"]["ragged"] and found["spec"]["softcap"] and found["launch"]["planned_on_device"]
    assert found["launch"]["workspace_bytes"] > 32 * found["launch"]["tile_list_entries"] > 0
    rows, keys = 64 * found["spec"]["consumer_warpgroups"], found["spec"]["block_n"]
    assert found["key_blocks"]["rectangle"] == sum(-(-q // rows) * -(-k // keys) for q, k in ((100, 700), (300, 300), (1, 5000)))
    text = tandem.ok("explain", *flags).out
    for word in ("packed", "3", "planned on the device", str(found["launch"]["workspace_bytes"]), "softcap 20", "sinks", "the mask saves"):
        assert word in text


def test_explain_takes_the_call_as_the_library_does(tandem):
    kernel = lambda *flags: tandem.ok("explain", *flags, "--json").json["kernel"]
    assert kernel("--window", "-1,0") == kernel("--causal")
    assert kernel("--window", "100000,100000") == kernel()
    assert "local" in kernel("--window", "128,0") and "softcap" in kernel("--softcap", 3) and "ragged" in kernel("--seqused-k", "7")
    tandem("explain", "--batch", 2, "--seqlens-q", "1,2,3", "--seqlens-k", "1,2,3").refused("--seqlens-q has 3", "--batch", "2")
    tandem("explain", "--seqlens-q", "1,2,3", "--seqlens-k", "1,2").refused("--seqlens-k has 2", "3")
