#include "machine/diagnosis.hpp"

#include <fmt/format.h>

namespace tandem::model {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::deadlock: return "deadlock";
    case Fault::race: return "race";
    case Fault::missing_proxy_fence: return "missing_proxy_fence";
    case Fault::uninitialised_read: return "uninitialised_read";
    case Fault::accumulator_in_flight: return "accumulator_in_flight";
    case Fault::operand_in_flight: return "operand_in_flight";
    case Fault::missing_wgmma_fence: return "missing_wgmma_fence";
    case Fault::barrier_misuse: return "barrier_misuse";
    case Fault::barrier_over_arrival: return "barrier_over_arrival";
    case Fault::transaction_count: return "transaction_count";
    case Fault::named_barrier: return "named_barrier";
    case Fault::register_pool: return "register_pool";
    case Fault::diverged_warp: return "diverged_warp";
    case Fault::descriptor: return "descriptor";
    case Fault::operand_layout: return "operand_layout";
    case Fault::shared_out_of_bounds: return "shared_out_of_bounds";
    case Fault::global_out_of_bounds: return "global_out_of_bounds";
    case Fault::global_overwrite: return "global_overwrite";
    case Fault::unwritten_output: return "unwritten_output";
    case Fault::misaligned: return "misaligned";
    case Fault::bank_conflict: return "bank_conflict";
    case Fault::unfinished_work: return "unfinished_work";
    case Fault::livelock: return "livelock";
    case Fault::wrong_result: return "wrong_result";
  }
  return "?";
}

std::string Diagnosis::text() const {
  std::string out = fmt::format("{}: {}: {}\n", name_of(fault), object, message);
  if (!actor.empty()) out += fmt::format("  by     {}\n", actor);
  if (!where.empty()) out += fmt::format("  at     {}\n", where);
  if (!tile.empty()) out += fmt::format("  tile   {}\n", tile);
  out += fmt::format("  kernel {}\n  seed   {} (TANDEM_MODEL_SEED={} replays it)\n", kernel, seed, seed);
  return out + state;
}

}  // namespace tandem::model
