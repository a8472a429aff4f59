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

  // FP32 instructions an element: FFMA and FADD; with a softcap FMUL too, or two more for scores that it hardly bends, which are looked at first; and
  // the rescale of O, which lazy rescale almost never does.
  const double rescale = spec.lazy_rescale ? 0.0 : dv / n;
  const double softcap = spec.caps_by_cubic() ? 2 : spec.softcap ? 1 : 0;
  const double fp32 = elements * (2 + softcap + rescale) / 32;  // warp instructions, spread over four sub-partitions
  if (spec.softcap && !spec.caps_by_cubic()) roof.exp *= 2;
  constexpr double kTensorCyclesLost = 0.86;  // measured, a FP32 warp instruction beside WGMMA
  roof.interference = fp32 / 4 * kTensorCyclesLost;

  // Exp, half a conversion, a maximum where there is one, and a tanh, beside the FP32 instructions; about a tenth for loop, barriers and descriptors.
  const double maxima = !spec.lazy_rescale || spec.caps_by_cubic() ? 1 : 0, tanh = spec.softcap && !spec.caps_by_cubic() ? 1 : 0;
  roof.issue = 1.1 * (fp32 + elements * (1.5 + maxima + tanh) / 32) / 4;

  // A WGMMA reads B once, and A unless it is in registers; K and V arrive once for all warpgroups.
  const double q_reads = spec.q_in_registers ? 0.0 : warpgroups * 64 * d * 2;
  const double kv_reads = warpgroups * n * (d + dv) * 2;
  const double arrivals = n * (d + dv) * 2;
  roof.shared = (q_reads + kv_reads + arrivals) / 128;
  return roof;
}

double tile_cycles(const ForwardSpec& spec, double steps) {
  // Fitted to the order in which the schedules of bench/records came: what it chooses is 1.2 % behind the best of 411 problems in the mean, and 2.5 % in 28
  // at head dims without a line. Those runs are themselves good to 2 or 3 %.
  constexpr double kEfficiency = 0.88;  // of the bound, in the steady loop
  // A step of a warpgroup is a chain: its GEMMs, its softmax, and what it waits for between them. Of that a part stays uncovered, the less the more
  // warpgroups there are, and much less where they take turns. So narrow blocks cost more than their share.
  constexpr double kWaits = 700, kUncoveredInTurns = 0.1, kUncovered = 0.6;
  // Between tiles: first loads, an uncovered softmax, the epilogue. Several blocks on a multiprocessor cover each other's. With Q in registers the next
  // tile's comes under this one.
  constexpr double kBetweenTiles = 2700, kNextQ = 230;
  const Roofline roof = roofline(spec);
  const double warpgroups = spec.consumer_warpgroups * spec.ctas_per_sm;
  const double chain = (roof.tensor + roof.interference + roof.exp) / spec.consumer_warpgroups + kWaits;
  const double uncovered = (spec.turns == Turns::none ? kUncovered : kUncoveredInTurns) * chain / warpgroups;
  return steps * (roof.bound() / kEfficiency + uncovered / spec.ctas_per_sm) + (kBetweenTiles - (spec.q_in_registers ? kNextQ : 0)) / spec.ctas_per_sm;
}

}  // namespace tandem
