// What a multiprocessor of Hopper has, and what a spec takes of it. Plain C++20: the planner prints it, the kernel asserts it.
#pragma once
#include "attention/spec.hpp"
#include "tile/layout.hpp"

namespace tandem::budget {

constexpr int kRegistersPerSm = 65'536;
constexpr int kSharedBytesPerSm = 233'472;     // 228 KB
constexpr int kSharedBytesReserved = 1'024;    // taken by the system for each block
constexpr int kSharedBytesPerBlock = 232'448;  // 227 KB
constexpr int kNamedBarriers = 16;
constexpr int kRegisterGranule = 8;
constexpr int kMinRegisters = 24;
constexpr int kMaxRegisters = 256;

// What the producer needs: 24 registers to issue TMA; 40 when its threads compute the addresses of cp.async themselves.
constexpr int kProducerRegistersTma = 24;
constexpr int kProducerRegistersRagged = 32;  // the same, with the ends of a sequence beside every coordinate
constexpr int kProducerRegistersCpAsync = 40;
// More than this a producer has no use for.
constexpr int kProducerRegistersUseful = 56;

// What an instruction needs beside its accumulators: operands, descriptors, addresses. Beside 56 accumulators ptxas asks for 30.
constexpr int kRegistersBesideAccumulators = 30;

struct RegisterSplit {
  int launch = 0;    // registers a thread at launch: the cap that setmaxnreg redistributes
  int producer = 0;  // after setmaxnreg.dec
  int consumer = 0;  // after setmaxnreg.inc

  constexpr bool operator==(const RegisterSplit&) const = default;
};

constexpr int round_down(int value, int granule) { return value / granule * granule; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }

// Consumers get all that is left beside the producer's need; what rounding leaves over goes back to the producer.
constexpr RegisterSplit register_split(int consumer_warpgroups, int ctas_per_sm, int need) {
  const int threads = 128 * (consumer_warpgroups + 1);
  RegisterSplit split;
  split.launch = smaller(round_down(kRegistersPerSm / ctas_per_sm / threads, kRegisterGranule), kMaxRegisters);
  const int pool = split.launch * threads;
  split.consumer = smaller(round_down((pool - need * 128) / (128 * consumer_warpgroups), kRegisterGranule), kMaxRegisters);
  const int left = (pool - split.consumer * 128 * consumer_warpgroups) / 128;
  split.producer = smaller(round_down(left, kRegisterGranule), kProducerRegistersUseful);
  return split;
}

constexpr RegisterSplit register_split(const ForwardSpec& spec) {
  return register_split(spec.consumer_warpgroups, spec.ctas_per_sm, spec.ragged ? kProducerRegistersRagged : kProducerRegistersTma);
}

// Registers of a consumer thread by what they hold. `other`: row statistics, descriptors, addresses, loop state, temporaries.
struct RegisterLedger {
  int scores = 0, output = 0, probabilities = 0, query = 0, other = 0;
  constexpr int total() const { return scores + output + probabilities + query + other; }
};

constexpr RegisterLedger register_ledger(const ForwardSpec& spec) {
  return {spec.block_n / 2, spec.head_dim_v / 2, spec.block_n / 4, spec.q_in_registers ? spec.head_dim / 4 : 0,
          26 + (spec.local ? 10 : 0) + (spec.softcap ? 11 : 0) + (spec.ragged ? 2 : 0)};
}

// Bytes of shared memory by what they hold. Widths are rounded up as tile/layout.hpp says.
struct SharedLedger {
  int q = 0, k = 0, v = 0, output = 0, barriers = 0;
  constexpr int total() const { return q + k + v + output + barriers; }
};

constexpr SharedLedger shared_ledger(const ForwardSpec& spec) {
  SharedLedger ledger;
  ledger.q = spec.q_buffers * tile::tile_bytes(spec.block_m(), spec.head_dim);
  ledger.k = spec.stages * tile::narrowed_tile_bytes(spec.block_n, spec.head_dim);
  ledger.v = spec.stages * tile::tile_bytes(spec.block_n, spec.head_dim_v);
  ledger.output = spec.output_stage == OutputStage::own ? tile::tile_bytes(spec.block_m(), spec.head_dim_v) : 0;
  ledger.barriers = 1024;  // mbarriers and the tile ring, in one 1024-byte line that keeps the struct's size a multiple of its alignment
  return ledger;
}

constexpr int shared_bytes_allowed(const ForwardSpec& spec) {
  return smaller(kSharedBytesPerSm / spec.ctas_per_sm - kSharedBytesReserved, kSharedBytesPerBlock) / 1024 * 1024;
}

// nullptr if the spec can be built, else the rule that it breaks.
constexpr const char* broken_rule(const ForwardSpec& spec) {
  if (spec.head_dim < 16 || spec.head_dim > 256 || spec.head_dim % 16 != 0) return "head_dim must be a multiple of 16 from 16 to 256";
  if (spec.head_dim_v < 16 || spec.head_dim_v > 256 || spec.head_dim_v % 8 != 0) return "head_dim_v must be a multiple of 8 from 16 to 256";
  if (spec.consumer_warpgroups < 1 || spec.consumer_warpgroups > 3) return "consumer_warpgroups must be 1, 2 or 3";
  if (spec.block_n < 16 || spec.block_n > 256 || spec.block_n % 16 != 0) return "block_n must be a multiple of 16 from 16 to 256";
  if (spec.stages < 1 || spec.stages > 4) return "stages must be 1 to 4";
  if (spec.q_buffers < 1 || spec.q_buffers > 2) return "q_buffers must be 1 or 2";
  if (spec.ctas_per_sm < 1 || spec.ctas_per_sm > 4) return "ctas_per_sm must be 1 to 4";
  if (spec.cluster != 1 && spec.cluster != 2) return "cluster must be 1 or 2";
  if (spec.cluster == 2 && spec.causal) return "cluster 2 pairs tiles of equal length: it cannot be causal";
  if (spec.cluster == 2 && spec.scheduler == Scheduler::dynamic_persistent)
    return "cluster 2 needs a scheduler that both blocks can compute: single_tile or static_persistent";
  if (spec.cluster == 2 && spec.ctas_per_sm != 1) return "cluster 2 needs ctas_per_sm 1";
  if (spec.ragged && (spec.cluster != 1 || spec.scheduler != Scheduler::dynamic_persistent)) return "ragged needs cluster 1 and scheduler dynamic_persistent";
  if (spec.local && spec.cluster != 1) return "local needs cluster 1: the tiles of a pair see different keys";
  if (spec.turns != Turns::none && spec.consumer_warpgroups < 2) return "turns need at least two consumer warpgroups";
  if (spec.output_stage == OutputStage::q_buffer && tile::padded_columns(spec.head_dim_v) > tile::padded_columns(spec.head_dim))
    return "output_stage q_buffer needs a head_dim_v no wider than head_dim";
  // ptxas compiles for the registers at launch, and an instruction that writes N / 2 accumulators has to fit them.
  if ((spec.head_dim_v > spec.block_n ? spec.head_dim_v : spec.block_n) / 2 + kRegistersBesideAccumulators > register_split(spec).launch)
    return "the accumulators of one WGMMA do not fit the registers at launch";
  if (register_ledger(spec).total() > register_split(spec).consumer) return "the fragments do not fit the registers of a consumer";
  if (shared_ledger(spec).total() > shared_bytes_allowed(spec)) return "the tiles do not fit shared memory";
  return nullptr;
}

}  // namespace tandem::budget
