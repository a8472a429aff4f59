#include "plan/roofline.hpp"

#include <algorithm>

#include "attention/budget.hpp"

namespace tandem {

double Roofline::bound() const { return std::max({tensor + interference, exp, shared, issue}); }

std::string_view Roofline::binding() const {
  const double most = bound();
  if (tensor + interference == most) return "tensor";
  if (exp == most) return "exp";
  if (shared == most) return "shared";
  return "issue";
}

Roofline roofline(const ForwardSpec& spec) {
  const double m = spec.block_m(), n = spec.block_n, d = spec.head_dim, dv = spec.head_dim_v;
  const double warpgroups = spec.consumer_warpgroups;
  const double elements = m * n;
  Roofline roof;
  roof.tensor = warpgroups * (d / 16 * n / 2 + n / 16 * dv / 2);
  roof.exp = elements / 16;

  // FP32 instructions an element: FFMA and FADD; and the rescale of O, which lazy rescale almost never does.
  const double rescale = spec.lazy_rescale ? 0.0 : dv / n;
  const double fp32 = elements * (2 + rescale) / 32;  // warp instructions, spread over four sub-partitions
  constexpr double kTensorCyclesLost = 0.86;          // measured, a FP32 warp instruction beside WGMMA
  roof.interference = fp32 / 4 * kTensorCyclesLost;

  // Exp, half a conversion, and without lazy rescale a maximum beside the FP32 instructions; about a tenth for loop, barriers and descriptors.
  roof.issue = 1.1 * (fp32 + elements * (spec.lazy_rescale ? 1.5 : 2.5) / 32) / 4;

  // A WGMMA reads B once, and A unless it is in registers; K and V arrive once for all warpgroups.
  const double q_reads = spec.q_in_registers ? 0.0 : warpgroups * 64 * d * 2;
  const double kv_reads = warpgroups * n * (d + dv) * 2;
  const double arrivals = n * (budget::padded_columns(spec.head_dim) + budget::padded_columns(spec.head_dim_v)) * 2;
  roof.shared = (q_reads + kv_reads + arrivals) / 128;
  return roof;
}

double tile_cycles(const ForwardSpec& spec, double steps) {
  // Between tiles: first loads, an uncovered softmax, the epilogue. Several blocks on a multiprocessor cover each other's.
  constexpr double kBetweenTiles = 1800;
  constexpr double kEfficiency = 0.88;  // of the bound, in the steady loop
  return steps * roofline(spec).bound() / kEfficiency + kBetweenTiles / spec.ctas_per_sm;
}

}  // namespace tandem
