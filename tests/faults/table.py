"""Planted faults: one changed or moved line in a kernel each, and what the model has to say about it.

A fault: name, kernel configuration, file under kernels/, old text, new text, and the diagnoses that name it rightly, each as
(fault, part of the object's name). The old text must occur exactly once.
"""

# Kernel configurations, small so that a run is quick; between them they use every part of the kernel.
SPECS = {
    # Q in registers, O through a buffer of its own, ping-pong, dynamic scheduler
    "own": "{.head_dim = 64, .head_dim_v = 64, .block_n = 64, .q_in_registers = true, .output_stage = tandem::OutputStage::own}",
    # Q from shared memory, O stored from registers, causal, two chunks a row, every rescale done
    "registers": "{.dtype = tandem::DType::fp16, .head_dim = 128, .head_dim_v = 128, .causal = true, .block_n = 32, .lazy_rescale = false,"
    " .turns = tandem::Turns::exp_section}",
    # O through the buffer of Q; only query_rows_free orders the warps of a warpgroup
    "q_buffer": "{.head_dim = 64, .head_dim_v = 64, .block_n = 64, .q_buffers = 2, .turns = tandem::Turns::none, .output_stage = tandem::OutputStage::q_buffer}",
    # short keys, so that tiles follow each other without any ring going round; nothing but mbarriers orders the warpgroups
    "short": "{.head_dim = 64, .head_dim_v = 64, .block_n = 64, .q_buffers = 2, .turns = tandem::Turns::none}",
    # a softcap, whose smaller scores take another way than its larger ones
    "capped": "{.head_dim = 64, .head_dim_v = 64, .softcap = true, .block_n = 48, .turns = tandem::Turns::none}",
    # a last chunk of K that is narrower than the others, and tensors that end inside it
    "narrow": "{.head_dim = 80, .head_dim_v = 80, .block_n = 64, .turns = tandem::Turns::none}",
    # two blocks load K and V for each other
    "cluster": "{.head_dim = 128, .head_dim_v = 128, .consumer_warpgroups = 1, .block_n = 64, .cluster = 2, .turns = tandem::Turns::none,"
    " .scheduler = tandem::Scheduler::static_persistent}",
}

# Queries and keys, which end inside a tile, and how many columns the tensors lack beside it.
SHAPES = {"own": (150, 150, 0), "registers": (150, 150, 0), "q_buffer": (150, 150, 8), "short": (200, 50, 0), "capped": (70, 150, 0), "narrow": (70, 150, 8),
          "cluster": (150, 150, 8)}

FORWARD = "attention/forward.cuh"
EPILOGUE = "attention/epilogue.cuh"
STORAGE = "attention/storage.cuh"
PIPELINE = "tile/pipeline.cuh"
SOFTMAX = "attention/softmax.cuh"
SWIZZLE = "tile/swizzle.cuh"

FAULTS = [
    # ---- waits and phases
    ("dropped_k_wait", "own", FORWARD, "s_.k_ring.wait(k_at_);", "", [("race", "k["), ("uninitialised_read", "k[")]),
    ("dropped_v_wait", "registers", FORWARD, "s_.v_ring.wait(v_at_);", "", [("race", "v["), ("uninitialised_read", "v[")]),
    ("dropped_q_wait", "own", FORWARD, "s_.q_ring.wait(q);", "", [("race", "q["), ("uninitialised_read", "q[")]),
    ("dropped_tile_wait", "own", FORWARD, "s_.tile_ring.wait(tile_at_);", "", [("race", "tiles["), ("uninitialised_read", "tiles[")]),
    ("consumer_waits_for_the_wrong_phase", "own", PIPELINE, "ptx::mbarrier_wait(full[at.stage], at.phase);",
     "ptx::mbarrier_wait(full[at.stage], at.phase ^ 1);", [("race", "tiles["), ("uninitialised_read", "tiles[")]),
    ("producer_waits_for_the_wrong_phase", "own", PIPELINE, "ptx::mbarrier_wait(empty[at.stage], at.phase ^ 1);",
     "ptx::mbarrier_wait(empty[at.stage], at.phase);", [("deadlock", "tile_ring.empty[0]")]),
    ("phase_never_flips", "registers", PIPELINE, "stage = 0;\n        phase ^= 1;", "stage = 0;",
     [("race", ""), ("deadlock", "_ring.")]),
    # ---- stages
    ("producer_does_not_wait_for_a_free_stage", "own", FORWARD, "ring.acquire(at);", "", [("race", "k["), ("race", "v[")]),
    ("one_stage_too_few", "registers", FORWARD, "s_.k[k_at_.stage], params_.k_maps", "s_.k[0], params_.k_maps",
     [("race", "k[0]"), ("uninitialised_read", "k[1]")]),
    ("tile_slot_not_acquired", "short", FORWARD, "s_.tile_ring.acquire(tile_at_);", "", [("race", "tiles[")]),
    ("v_released_before_pv_has_read_it", "own", FORWARD, "ptx::wgmma_wait_group<0>();\n    ptx::wgmma_settle(r_o_);\n    release_v();",
     "release_v();\n    ptx::wgmma_wait_group<0>();\n    ptx::wgmma_settle(r_o_);", [("race", "v[")]),
    ("k_released_before_qk_has_read_it", "registers", FORWARD, "ptx::wgmma_wait_group<1>();  // in flight: PV\n    } else {",
     "release_k(); ptx::wgmma_wait_group<1>();\n    } else {", [("race", "k["), ("barrier_over_arrival", "k_ring.empty")]),
    ("v_never_released", "own", FORWARD, "s_.v_ring.template release<kSpec.cluster>(v_at_);", "", [("deadlock", "v_ring.empty")]),
    ("tile_slot_released_by_one_lane_for_all", "short", FORWARD, "ptx::mbarrier_arrive(s_.tile_ring.empty[tile_at_.stage]);",
     "s_.tile_ring.template release<1>(tile_at_);", [("deadlock", "tile_ring.empty")]),
    ("q_overwritten_by_o_too_early", "q_buffer", FORWARD,
     "if constexpr (!kSpec.q_in_registers) ptx::named_barrier_sync(static_cast<int>(NamedBarrier::query_rows_free) + warpgroup_, 128);", "",
     [("race", "q[")]),
    # ---- barriers
    ("one_arrival_too_many_expected", "own", STORAGE, "k_ring.init(kSpec.consumer_warps() * kSpec.cluster);",
     "k_ring.init(kSpec.consumer_warps() * kSpec.cluster + 1);", [("deadlock", "k_ring.empty")]),
    ("one_arrival_too_few_expected", "registers", STORAGE, "v_ring.init(kSpec.consumer_warps() * kSpec.cluster);",
     "v_ring.init(kSpec.consumer_warps() * kSpec.cluster - 1);", [("race", "v["), ("barrier_over_arrival", "v_ring.empty")]),
    ("every_lane_arrives", "own", PIPELINE, "if (ptx::elect_one()) ptx::mbarrier_arrive(empty[at.stage]);", "ptx::mbarrier_arrive(empty[at.stage]);",
     [("barrier_over_arrival", ".empty"), ("race", "")]),
    ("fewer_bytes_expected_than_come", "own", FORWARD, "ring.expect(at, kSpec.block_n * columns * 2);", "ring.expect(at, kSpec.block_n * columns * 2 - 128);",
     [("transaction_count", "_ring.full")]),
    ("more_bytes_expected_than_come", "registers", FORWARD, "ring.expect(at, kSpec.block_n * columns * 2);", "ring.expect(at, kSpec.block_n * columns * 2 + 16);", [("deadlock", "_ring.full")]),
    ("q_bytes_not_expected", "registers", FORWARD, "s_.q_ring.expect(q_at_, kSpec.block_m() * params_.q_columns * 2);", "ptx::mbarrier_arrive(s_.q_ring.full[q_at_.stage]);",
     [("transaction_count", "q_ring.full"), ("race", "q[")]),
    ("barriers_used_before_they_are_initialised", "own", FORWARD, "  else\n    ptx::block_sync();", "  else {}", [("barrier_misuse", "_ring.")]),
    ("barrier_initialisation_not_fenced", "own", FORWARD, "ptx::fence_mbarrier_init();", "", [("missing_proxy_fence", "_ring.full")]),
    # ---- proxies
    ("stores_not_fenced_before_tma", "own", EPILOGUE, "ptx::fence_proxy_async_shared();  // ordinary stores above, TMA below", "",
     [("missing_proxy_fence", "o")]),
    ("tma_store_before_all_lanes_have_fenced", "own", EPILOGUE, "ptx::warp_sync();\n    if (lane == 0) {", "if (lane == 0) {",
     [("missing_proxy_fence", "o")]),
    ("buffer_rewritten_while_a_store_reads_it", "own", FORWARD, "epilogue_.wait_buffer_free();\n      store(tile, s_.o);", "store(tile, s_.o);",
     [("race", "o")]),
    ("block_leaves_while_a_store_reads", "own", FORWARD, "epilogue_.wait_buffer_free();  // shared memory must outlive the stores that read it", "",
     [("unfinished_work", "TMA store")]),
    # ---- WGMMA
    ("scores_read_in_flight", "own", FORWARD, "ptx::wgmma_wait_group<1>();  // in flight: PV\n    } else {", "ptx::wgmma_wait_group<2>();\n    } else {",
     [("accumulator_in_flight", "accumulator")]),
    ("first_scores_not_waited_for", "registers", FORWARD, "ptx::wgmma_wait_group<0>();  // nothing in flight\n      ptx::wgmma_settle(r_s_);", "",
     [("accumulator_in_flight", "accumulator"), ("race", "k[")]),
    ("group_not_committed", "own", FORWARD, "ptx::wgmma_commit_group();\n    accumulate_ = true;", "accumulate_ = true;",
     [("accumulator_in_flight", "accumulator")]),
    ("no_fence_before_pv", "own", FORWARD, "s_.v_ring.wait(v_at_);\n    ptx::wgmma_fence();", "s_.v_ring.wait(v_at_);", [("missing_wgmma_fence", "")]),
    ("no_fence_before_qk", "registers", FORWARD, "s_.k_ring.wait(k_at_);\n    ptx::wgmma_fence();", "s_.k_ring.wait(k_at_);",
     [("missing_wgmma_fence", "accumulator")]),
    ("p_overwritten_while_pv_reads_it", "own", FORWARD, "if constexpr (kSpec.overlap) settle_pv();  // nothing in flight", "",
     [("operand_in_flight", "operand A")]),
    ("o_rescaled_in_flight", "registers", FORWARD, "softmax_.rescale(r_o_);\n      issue_pv();  // in flight: QK, PV of the block before",
     "issue_pv();\n      softmax_.rescale(r_o_);", [("accumulator_in_flight", "accumulator")]),
    ("descriptor_step_too_long", "own", SWIZZLE, "(k % 4) * 32", "(k % 4) * 64", [("descriptor", "operand B"), ("operand_layout", "k[")]),
    ("descriptor_stride_too_short", "registers", SWIZZLE, "ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, 16, 1024)", "ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, 16, 512)",
     [("operand_layout", "q["), ("operand_layout", "k[")]),
    ("descriptor_leading_offset_wrong", "registers", SWIZZLE, "ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, chunk_bytes(kRows), 1024)",
     "ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, chunk_bytes(kRows) / 2, 1024)", [("operand_layout", "v[")]),
    ("q_and_k_at_different_columns", "registers", FORWARD, "q_tile.advanced(tile::k_step_bytes<kSpec.block_m()>(k))",
     "q_tile.advanced(tile::k_step_bytes<kSpec.block_m()>(k ^ 1))", [("operand_layout", "k[")]),
    ("v_taken_as_k_major", "own", FORWARD, "kSpec.head_dim_v, ptx::Major::mn>", "kSpec.head_dim_v, ptx::Major::k>",
     [("operand_layout", "v["), ("shared_out_of_bounds", "v["), ("wrong_result", "out")]),
    # ---- layout
    ("o_not_swizzled", "own", EPILOGUE, "tile::swizzled_offset(row, piece)", "static_cast<u32>(row * tile::kRowBytes + piece * 16)", [("bank_conflict", "o")]),
    ("swizzle_rotates_instead_of_xor", "own", EPILOGUE, "tile::swizzled_offset(row, piece)",
     "static_cast<u32>(row * tile::kRowBytes + ((piece + row) & 7) * 16)", [("wrong_result", "out")]),
    ("q_rows_not_swizzled", "own", FORWARD, "tile::swizzled_offset(row, k % 4 * 2 + lane / 16)", "static_cast<u32>(row * 128 + (k % 4 * 2 + lane / 16) * 16)",
     [("bank_conflict", "q[")]),
    ("chunk_outside_its_tile", "registers", FORWARD,
     "load_rows<kSpec>(destination + chunk * kChunkBytes, map, ring.full[at.stage], chunk * tile::kChunkColumns, keys, row, kv_head,\n"
     "                           ptx::CacheHint::evict_last);",
     "load_rows<kSpec>(destination + chunk * 2 * kChunkBytes, map, ring.full[at.stage], chunk * tile::kChunkColumns, keys, row, kv_head,"
     " ptx::CacheHint::evict_last);", [("race", "k["), ("race", "v["), ("uninitialised_read", "k["), ("uninitialised_read", "v[")]),
    ("narrow_chunk_read_as_a_wide_one", "narrow", SWIZZLE, "if (k / 4 == chunks_of(kColumns) - 1) step.high = ptx::descriptor_layout<kLastSwizzle>(8 * kLastRowBytes);",
     "", [("operand_layout", "k["), ("shared_out_of_bounds", "k[")]),
    ("last_chunk_loaded_by_the_map_of_whole_ones", "narrow", FORWARD, "maps.of(chunk, kColumns, columns)", "maps.whole", [("shared_out_of_bounds", "k[")]),
    ("columns_beyond_the_tensor_not_zeroed", "narrow", FORWARD, "shared.zero_beyond(params);", "", [("uninitialised_read", "k["), ("uninitialised_read", "q[")]),
    ("zeros_one_piece_too_early", "narrow", STORAGE, "columns % tile::kChunkColumns / tile::kPieceColumns)", "columns % tile::kChunkColumns / tile::kPieceColumns - 1)",
     [("race", "k["), ("race", "q["), ("race", "v["), ("uninitialised_read", "k["), ("uninitialised_read", "q[")]),
    ("zeros_not_fenced_before_wgmma", "narrow", STORAGE, "ptx::fence_proxy_async_shared();  // WGMMA reads them", "",
     [("missing_proxy_fence", "k["), ("missing_proxy_fence", "q["), ("missing_proxy_fence", "v[")]),
    ("matrix_row_misaligned", "own", EPILOGUE, "ptx::stmatrix_x4(base + (pair / 8)", "ptx::stmatrix_x4(base + 8 + (pair / 8)", [("misaligned", "shared memory")]),
    # ---- turns and registers
    ("turn_given_to_the_wrong_warpgroup", "own", FORWARD, "give_turn_to(warpgroup_ + 1 == kSpec.consumer_warpgroups ? 0 : warpgroup_ + 1);",
     "give_turn_to(warpgroup_);", [("deadlock", "turn["), ("named_barrier", "turn[")]),
    ("first_turn_not_given", "own", FORWARD, "if (kSpec.turns != Turns::none && warpgroup_ == 0) give_turn_to(0);  // the first turn", "",
     [("deadlock", "turn[")]),
    ("last_turn_not_taken", "registers", FORWARD,
     "if (kSpec.turns != Turns::none && warpgroup_ == 0) ptx::named_barrier_sync(turn_barrier(0), kTurnThreads);  // the last turn", "",
     [("named_barrier", "turn[0]")]),
    ("turn_counts_one_warpgroup", "own", FORWARD, "static constexpr int kTurnThreads = 256;", "static constexpr int kTurnThreads = 128;",
     [("named_barrier", "turn["), ("deadlock", "turn["), ("race", "")]),
    ("turns_share_a_barrier", "own", FORWARD, "return static_cast<int>(NamedBarrier::turn) + warpgroup;", "return static_cast<int>(NamedBarrier::turn);",
     [("named_barrier", "turn[0]"), ("deadlock", "turn[0]")]),
    ("more_registers_than_there_are", "own", FORWARD, "ptx::setmaxnreg_inc<kRegisters.consumer>();", "ptx::setmaxnreg_inc<kRegisters.consumer + 8>();",
     [("register_pool", "register file")]),
    ("producer_keeps_its_registers", "own", FORWARD, "ptx::setmaxnreg_dec<kRegisters.producer>();", "", [("register_pool", "register file")]),
    ("one_warp_skips_a_collective", "own", EPILOGUE, "if (ptx::lane_index() == 0) ptx::tma_store_wait_read<0>();\n      ptx::warp_sync();",
     "if (ptx::lane_index() == 0) { ptx::tma_store_wait_read<0>(); ptx::warp_sync(); }", [("diverged_warp", "")]),
    # ---- edges
    ("unmasked_tail", "own", FORWARD, "if (n_block >= end_whole || n_block < first_whole) mask.apply_right(r_s_, n_block);", "", [("wrong_result", "out")]),
    ("mask_one_key_too_far", "registers", "attention/seqlens.cuh", "kSpec.causal ? position + 1 :", "kSpec.causal ? position + 2 :", [("wrong_result", "out")]),
    ("rows_past_the_end_stored", "registers", EPILOGUE, "if (query < seqlen_q(tile) && column < params_.head_dim_v)", "if (column < params_.head_dim_v)",
     [("global_out_of_bounds", "out"), ("global_overwrite", "out")]),
    ("lse_past_the_end_stored", "own", EPILOGUE, "if (params_.lse != nullptr && lane % 4 == 0 && query < seqlen_q(tile))",
     "if (params_.lse != nullptr && lane % 4 == 0)", [("global_out_of_bounds", "lse"), ("global_overwrite", "lse")]),
    ("lse_stored_by_one_lane_too_many", "registers", EPILOGUE, "lane % 4 == 0 && query < seqlen_q(tile)", "lane % 2 == 0 && query < seqlen_q(tile)",
     [("global_overwrite", "lse")]),
    ("last_rows_never_stored", "own", EPILOGUE, "if (first_row < seqlen_q(tile)) {", "if (first_row + kRowsOfWarp <= seqlen_q(tile)) {",
     [("unwritten_output", "out")]),
    # ---- softcap
    ("scores_too_large_for_the_cubic_pass", "capped", SOFTMAX, "return ptx::warp_any(score > gentle_);", "return false;",
     [("wrong_result", "out")]),
    ("a_steep_block_keeps_the_cubic", "capped", SOFTMAX, "      exponent = {scale_, 0.0f};\n      begin(s, linear(), sum, 0);", "      begin(s, linear(), sum, 0);",
     [("wrong_result", "out")]),
    # ---- clusters
    ("stage_released_to_one_block_only", "cluster", FORWARD, "s_.k_ring.template release<kSpec.cluster>(k_at_);", "s_.k_ring.template release<1>(k_at_);",
     [("deadlock", "k_ring.empty")]),
    ("arrivals_of_one_block_only_counted", "cluster", STORAGE, "k_ring.init(kSpec.consumer_warps() * kSpec.cluster);",
     "k_ring.init(kSpec.consumer_warps());", [("race", "k["), ("barrier_over_arrival", "k_ring.empty"), ("transaction_count", "k_ring.full")]),
    ("multicast_to_one_block_only", "cluster", FORWARD, "(1 << kSpec.cluster) - 1);", "1 << ptx::cluster_cta_rank());", [("deadlock", "_ring.full")]),
    ("blocks_of_a_cluster_start_apart", "cluster", FORWARD, "if constexpr (kSpec.cluster > 1)\n    ptx::cluster_sync();\n  else",
     "if constexpr (kSpec.cluster > 1)\n    ptx::block_sync();\n  else", [("barrier_misuse", "_ring.")]),
    ("block_of_a_cluster_leaves_early", "cluster", FORWARD,
     "if constexpr (kSpec.cluster > 1) ptx::cluster_sync();  // the other block may still load into this one's shared memory", "",
     [("unfinished_work", "")]),
]
