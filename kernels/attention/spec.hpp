// The configuration of a forward kernel: what is fixed when it is compiled. Plain C++20, shared with the host; every field has a reason.
#pragma once
#include "ptx/dtype.hpp"

namespace tandem {

// Who may issue when several consumer warpgroups share the tensor core.
enum class Turns : int {
  none,         // the hardware decides
  gemm_issue,   // warpgroups issue their GEMMs in turn: one multiplies while the other is in softmax
  exp_section,  // warpgroups enter their exponentials in turn: the exp unit is never shared
};

// Where O waits for its store.
enum class OutputStage : int {
  registers,  // stored from registers, 16 bytes a thread after an exchange in the quad
  q_buffer,   // through the Q buffer of the tile, which is free later for it
  own,        // through a buffer of its own: the stores run under the next tile
};

enum class Scheduler : int {
  single_tile,         // a block a tile
  static_persistent,   // a block a multiprocessor; block i takes tiles i, i + grid, ...
  dynamic_persistent,  // the next tile is whoever's asks first: uneven tiles, heaviest first
};

struct ForwardSpec {
  DType dtype = DType::bf16;
  int head_dim = 128;    // width of the Q and K tiles, a multiple of 16; the tensors may be 8 narrower
  int head_dim_v = 128;  // width of the V and O tiles, a multiple of 8: here the instruction's N, there its K
  bool causal = false;   // two trip counts and a mask: worth a kernel of its own
  bool local = false;    // windows and attention chunks: visible keys have a lower end too; with causal the upper end stays the diagonal
  bool softcap = false;  // scores pass a tanh: by the exp unit, or of small ones by a cubic
  bool ragged = false;   // lengths are read on the device, tiles come from a list that prepare.cuh made

  int consumer_warpgroups = 2;  // 64 queries each
  int block_n = 128;            // keys a step
  int stages = 2;               // of the K ring and of the V ring
  int q_buffers = 1;            // 2: the next tile's Q comes while this one is used
  int ctas_per_sm = 1;          // several small blocks cover each other's prologue and epilogue
  int cluster = 1;              // 2: neighbouring query tiles load K and V once for both

  bool overlap = true;          // PV of a block runs while the softmax of the next is computed
  bool q_in_registers = false;  // fewer shared-memory reads, and the Q buffer is free at once
  bool lazy_rescale = true;     // leave O on an old offset while the exps fit; false: the maximum of every block
  Turns turns = Turns::gemm_issue;
  OutputStage output_stage = OutputStage::registers;
  Scheduler scheduler = Scheduler::dynamic_persistent;
  bool timeline = false;  // note when things happen: for `tandem timeline`, never in what ships

  constexpr bool operator==(const ForwardSpec&) const = default;

  // Whether a tanh and an exp for each score take longer than the GEMMs beside them. Measured: they do at head dim 128, not at 192.
  constexpr bool softcap_binds() const { return softcap && head_dim + head_dim_v < 384; }
  constexpr bool caps_by_cubic() const { return softcap_binds() && lazy_rescale; }
  constexpr int block_m() const { return 64 * consumer_warpgroups; }
  constexpr int threads() const { return 128 * (consumer_warpgroups + 1); }
  constexpr int consumer_warps() const { return 4 * consumer_warpgroups; }
};

}  // namespace tandem
