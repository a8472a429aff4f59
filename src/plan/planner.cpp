#include "plan/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "attention/budget.hpp"
#include "plan/roofline.hpp"
#include "plan/spec_text.hpp"
#include "plan/tuned.hpp"

namespace tandem {
namespace {

ForwardSpec base_spec(const ForwardProblem& problem) {
  ForwardSpec spec;
  spec.dtype = problem.type == ElementType::bf16 ? DType::bf16 : DType::fp16;
  spec.head_dim = tile_width(problem.head_dim);
  spec.head_dim_v = tile_width_v(problem.head_dim_v);
  spec.causal = problem.causal;
  spec.local = problem.local();
  spec.softcap = problem.softcap;
  spec.ragged = problem.ragged();
  return spec;
}

// Queries and keys of a sequence, as far as the host knows them.
std::int64_t shorter_side(const ForwardProblem& problem) { return std::min(problem.expected_q(), problem.expected_k()); }

bool serves(const TunedLine& line, const ForwardProblem& problem) {
  const auto fits = [](int measured, std::int64_t columns) { return columns <= measured && tile_width(columns) == tile_width(measured); };
  return fits(line.head_dim, problem.head_dim) && fits(line.head_dim_v, problem.head_dim_v) && line.spec.causal == problem.causal;
}

std::int64_t tiles_of(const ForwardSpec& spec, const ForwardProblem& problem) {
  if (problem.packed_q) return (problem.seqlen_q + spec.block_m() - 1) / spec.block_m() * problem.num_heads;
  return (problem.seqlen_q + spec.block_m() - 1) / spec.block_m() * problem.batch * problem.num_heads;
}

// The line measured for such shapes. Where its tiles are too few to reach every multiprocessor, the line with the smallest tiles.
const TunedLine* tuned_line(const ForwardProblem& problem, const DeviceShape& device) {
  const std::int64_t shorter = shorter_side(problem);
  const TunedLine* chosen = nullptr;
  for (const TunedLine& line : kTunedForward)
    if (chosen == nullptr && serves(line, problem) && (line.seqlen_below == 0 || (shorter < line.seqlen_below && !problem.batch_invariant))) chosen = &line;
  // One schedule for all batches: its bits then depend on nothing that a batch decides.
  if (problem.batch_invariant || chosen == nullptr) return chosen;
  if (tiles_of(chosen->spec, problem) >= device.multiprocessors - problem.sm_margin) return chosen;
  for (const TunedLine& line : kTunedForward)
    if (serves(line, problem) && line.spec.block_m() < chosen->spec.block_m()) chosen = &line;
  return chosen;
}

// Of a spec that nobody has looked at what ptxas makes of: some registers stay free, more where windows keep ends at hand.
bool has_registers_to_spare(const ForwardSpec& spec) {
  return budget::register_ledger(spec).total() + (spec.local ? 10 : 4) <= budget::register_split(spec).consumer;
}

// A schedule of the table with the problem's own type, width and mask. A mask adds to the registers of a thread, maybe too much for a tile that won without
// it: then Q stays in shared memory, or the tile does not serve.
std::optional<ForwardSpec> adapted(const ForwardSpec& measured, const ForwardSpec& base) {
  ForwardSpec spec = measured;
  spec.dtype = base.dtype;
  spec.head_dim_v = base.head_dim_v;
  spec.local = base.local;
  spec.softcap = base.softcap;
  spec.ragged = base.ragged;
  // With O of 256 columns, ends of windows and of sequences together leave registers for 64 keys: at 80 ptxas spills.
  if (base.local && base.ragged && base.head_dim_v > 192) spec.block_n = std::min(spec.block_n, 64);
  // With a softcap the softmax is longer than the GEMMs of the other warpgroup: nobody waits for a turn. Measured: at head dim 128 turns cost 2 %,
  // from 192 on, where the GEMMs are longer, they gain as much.
  if (spec.softcap_binds()) spec.turns = Turns::none;
  if (budget::broken_rule(spec) == nullptr) return spec;
  spec.q_in_registers = false;
  if (budget::broken_rule(spec) == nullptr && has_registers_to_spare(spec)) return spec;
  return std::nullopt;
}

// Mean key blocks a tile.
double steps_of(const ForwardSpec& spec, const ForwardProblem& problem) {
  std::int64_t keys = problem.seqlen_k;
  const std::int64_t right = problem.causal ? 0 : problem.window_right;
  if (problem.window_left >= 0 && right >= 0) keys = std::min(keys, problem.window_left + right + spec.block_m());
  if (problem.attention_chunk > 0) keys = std::min(keys, problem.attention_chunk);
  const double blocks = std::max(1.0, static_cast<double>(keys) / spec.block_n);
  if (problem.local()) return blocks;
  return problem.causal ? 0.5 * blocks + 0.5 * std::max(1.0, static_cast<double>(spec.block_m()) / spec.block_n) : blocks;
}

// Time of the whole problem on the device, in cycles.
double predicted_cycles(const ForwardSpec& spec, const ForwardProblem& problem, const DeviceShape& device) {
  const auto tiles = static_cast<double>(tiles_of(spec, problem));
  const double slots = static_cast<double>(device.multiprocessors) * spec.ctas_per_sm;
  const double waves = std::max(1.0, tiles / slots);
  return waves * tile_cycles(spec, steps_of(spec, problem)) * spec.ctas_per_sm;
}

}  // namespace

std::string unsupported_reason(const ForwardProblem& problem) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 1024;
  if (problem.type == ElementType::fp32) return "q has dtype fp32; the Hopper kernels take fp16 and bf16 (the cpu backend takes fp32)";
  const auto head_dim = [](const char* name, std::int64_t value) {
    return value % 8 == 0 && value >= 8 && value <= 256 ? std::string()
                                                        : fmt::format("{} is {}; the Hopper kernels take multiples of 8 from 8 to 256", name, value);
  };
  if (std::string reason = head_dim("head_dim", problem.head_dim); !reason.empty()) return reason;
  // Of wider ones whole parts: in a narrower last one some stores would lie beside the tensor.
  if (problem.head_dim_v != 2 * kWidestV && (problem.head_dim_v % 8 != 0 || problem.head_dim_v < 8 || problem.head_dim_v > kWidestV))
    return fmt::format("head_dim_v is {}; the Hopper kernels take multiples of 8 from 8 to 256, and 512", problem.head_dim_v);
  const auto fits = [&](const char* name, std::int64_t value) {
    return value < kLimit ? std::string() : fmt::format("{} is {}; the Hopper kernels take less than 2^31 - 1024", name, value);
  };
  if (std::string reason = fits("seqlen_q", problem.seqlen_q); !reason.empty()) return reason;
  if (std::string reason = fits("seqlen_k", problem.seqlen_k); !reason.empty()) return reason;
  if (std::string reason = fits("seqlen_q + seqlen_k", problem.seqlen_q + problem.seqlen_k); !reason.empty()) return reason;
  if (std::string reason = fits("batch", problem.batch); !reason.empty()) return reason;
  if (std::string reason = fits("num_heads", problem.num_heads); !reason.empty()) return reason;
  if (std::string reason = fits("batch x num_heads", problem.batch * problem.num_heads); !reason.empty()) return reason;
  // Tiles are counted in 31 bits; 64 rows is the smallest tile.
  if (problem.ragged()) {
    const std::int64_t tiles = problem.num_heads * tile_list_capacity(problem.batch_of_q(), problem.seqlen_q, problem.batch, 64);
    if (std::string reason = fits("num_heads x (tokens / 64 + 2 x num_sequences)", tiles); !reason.empty()) return reason;
  } else if (std::string reason = fits("batch x num_heads x seqlen_q / 64", problem.batch * problem.num_heads * ((problem.seqlen_q + 63) / 64));
             !reason.empty()) {
    return reason;
  }
  return {};
}

ForwardSpec model_spec(const ForwardProblem& asked, const DeviceShape& device, int most_rows) {
  // Of two kinds of problems, short and long, and not of each length and batch: every other spec is a compilation.
  ForwardProblem problem = asked;
  const bool is_short = shorter_side(asked) < 1024 && !asked.batch_invariant;
  problem.seqlen_q = problem.seqlen_k = is_short ? 512 : 4096;
  problem.packed_q = problem.packed_k = problem.used_q = problem.used_k = false;
  problem.longest_q = problem.longest_k = 0;
  problem.batch = 16384 / problem.seqlen_q;
  problem.num_heads = problem.num_heads_kv = 16;

  ForwardSpec best;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const int warpgroups : {1, 2, 3})
    for (const int ctas : {1, 2, 3})
      for (int block_n = 48; block_n <= 192; block_n += 16)
        for (const bool q_in_registers : {true, false})
          for (const OutputStage stage : {OutputStage::own, OutputStage::registers}) {
            ForwardSpec spec = base_spec(asked);
            spec.consumer_warpgroups = warpgroups;
            spec.ctas_per_sm = ctas;
            spec.block_n = block_n;
            spec.q_in_registers = q_in_registers;
            spec.output_stage = stage;
            spec.turns = warpgroups > 1 ? Turns::gemm_issue : Turns::none;
            // One warpgroup alone on a multiprocessor has nobody to hide its softmax behind.
            if (warpgroups * ctas < 2 || warpgroups * ctas > 3 || spec.block_m() > most_rows || budget::broken_rule(spec) != nullptr) continue;
            if (!has_registers_to_spare(spec)) continue;
            const double cycles = predicted_cycles(spec, problem, device);
            if (cycles < best_cycles) {
              best = spec;
              best_cycles = cycles;
            }
          }
  if (best.softcap_binds()) best.turns = Turns::none;  // see adapted()
  return best;
}

Result<ForwardPlan> plan_forward(const ForwardProblem& asked, const DeviceShape& device, std::string_view override_text) {
  if (std::string reason = unsupported_reason(asked); !reason.empty()) return Status(StatusCode::unsupported, reason);

  const ForwardProblem problem = problem_of_part(asked, 0);
  ForwardPlan plan;
  const ForwardSpec base = base_spec(problem);
  std::int64_t section_bytes = device.section_bytes;
  int most_rows = kMostRows;
  if (const TunedLine* line = tuned_line(problem, device)) {
    const TunedLine* const chosen = line;
    most_rows = chosen->spec.block_m();
    std::optional<ForwardSpec> spec = adapted(line->spec, base);
    // A tile that leaves no room for the mask: another one of this head dim does as a rule, measured at other lengths. None with more rows, for few may
    // have been chosen because there are few tiles.
    for (const TunedLine& other : kTunedForward)
      if (!spec && serves(other, problem) && other.spec.block_m() <= chosen->spec.block_m() && (spec = adapted(other.spec, base))) line = &other;
    if (spec) {
      plan.spec = *spec;
      section_bytes = std::min<std::int64_t>(section_bytes, std::int64_t{line->section_mb} << 20);
      const bool as_it_won = line == chosen && spec->q_in_registers == line->spec.q_in_registers;
      plan.reason = fmt::format("measured: {}{}", line->reason, as_it_won ? "" : "; changed to leave registers to the mask");
      plan.tuned = true;
    }
  }
  if (!plan.tuned) {
    plan.spec = model_spec(problem, device, most_rows);
    plan.reason = fmt::format("modelled: {:.0f} cycles a step, bound by {}", roofline(plan.spec).bound(), roofline(plan.spec).binding());
  }
  if (!override_text.empty()) {
    auto spec = parse_spec(override_text, plan.spec);
    if (!spec.ok()) return spec.status();
    if (spec.value().dtype != base.dtype || spec.value().head_dim != base.head_dim || spec.value().head_dim_v != base.head_dim_v ||
        spec.value().causal != base.causal || spec.value().local != base.local || spec.value().softcap != base.softcap || spec.value().ragged != base.ragged)
      return Status(StatusCode::invalid_argument, "a spec override may change the schedule, not dtype, head_dim, head_dim_v, causal, local, softcap or ragged");
    plan.spec = spec.value();
    plan.reason = fmt::format("overridden with {}", override_text);
    plan.tuned = false;
  }
  plan.geometry = make_geometry(plan.spec, problem, device.multiprocessors, section_bytes);
  return plan;
}

}  // namespace tandem
