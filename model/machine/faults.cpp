// The words of a diagnosis.
#include <fmt/format.h>

#include <algorithm>

#include "machine/machine.hpp"
#include "machine/mbarrier.hpp"
#include "machine/source.hpp"

namespace tandem::model {
namespace {

const char* verb_of(AccessKind kind) {
  switch (kind) {
    case AccessKind::generic_read: return "a read";
    case AccessKind::generic_write: return "a write";
    case AccessKind::load_write: return "a TMA load";
    case AccessKind::store_read: return "a TMA store, which reads it,";
    case AccessKind::wgmma_read: return "a WGMMA, which reads it,";
  }
  return "?";
}

bool shows_barriers(Fault fault) {
  switch (fault) {
    case Fault::deadlock:
    case Fault::race:
    case Fault::barrier_misuse:
    case Fault::barrier_over_arrival:
    case Fault::transaction_count:
    case Fault::named_barrier:
    case Fault::register_pool:
    case Fault::livelock: return true;
    default: return false;
  }
}

}  // namespace

void Machine::fail(Fault fault, std::string object, std::string message, const Thread* actor) {
  Thread* const running = std::exchange(current_thread, nullptr);  // what follows is no access of the kernel's
  if (!failure_) {
    Diagnosis diagnosis;
    diagnosis.fault = fault;
    diagnosis.object = std::move(object);
    diagnosis.message = std::move(message);
    diagnosis.kernel = kernel.name;
    diagnosis.seed = config.seed;
    if (actor != nullptr) {
      diagnosis.actor = describe(*actor);
      diagnosis.where = describe_source(actor->pc);
      if (actor->tile != nullptr && kernel.tile) diagnosis.tile = kernel.tile(actor->tile_bytes.data());
    }
    if (shows_barriers(fault)) diagnosis.state = describe_barriers(actor == nullptr || fault == Fault::deadlock ? nullptr : actor->block->cluster);
    if (fault == Fault::deadlock || fault == Fault::livelock || fault == Fault::register_pool) diagnosis.state += describe_waiting();
    failure_ = std::move(diagnosis);
  }
  current_thread = running;
  throw Stopped();
}

void Machine::fail(const Conflict& conflict, Block& block, const Access& access, const std::string& action) {
  const Cluster& cluster = *block.cluster;
  Thread& actor = *cluster.blocks[static_cast<std::size_t>(access.thread / kernel.threads)]->threads[static_cast<std::size_t>(access.thread % kernel.threads)];
  actor.pc = access.pc;
  Fault fault = Fault::race;
  std::string message = describe_conflict(conflict, cluster, action, fault);
  fail(fault, kernel.shared.name(conflict.offset), std::move(message), &actor);
}

std::string Machine::describe_conflict(const Conflict& conflict, const Cluster& cluster, const std::string& action, Fault& fault) const {
  const std::string place = kernel.shared.describe(conflict.offset);
  if (conflict.kind == Conflict::Kind::uninitialised) {
    fault = Fault::uninitialised_read;
    return fmt::format("{} reads {}, which nobody has written", action, place);
  }
  const std::string other = describe(cluster.log[conflict.other], cluster);
  if (conflict.kind == Conflict::Kind::unfenced) {
    fault = Fault::missing_proxy_fence;
    return fmt::format("{} meets {} at {}, and its writer executed no fence.proxy.async that is ordered between them", action, other, place);
  }
  fault = Fault::race;
  return fmt::format("{} at {} is not ordered after {}", action, place, other);
}

std::string Machine::describe(const Thread& thread) const {
  return fmt::format("block {}, {}, warp {}, lane {}", thread.block->index, kernel.role ? kernel.role(thread.warp->index) : std::string("threads"),
                     thread.warp->index, thread.lane);
}

std::string Machine::describe_warp(const Warp& warp) const {
  return fmt::format("block {} warp {} ({})", warp.block->index, warp.index, kernel.role ? kernel.role(warp.index) : std::string());
}

std::string Machine::describe(const Access& access, const Cluster& cluster) const {
  const Thread& thread =
      *cluster.blocks[static_cast<std::size_t>(access.thread / kernel.threads)]->threads[static_cast<std::size_t>(access.thread % kernel.threads)];
  std::string out = fmt::format("{} by {} at {}", verb_of(access.kind), describe(thread), describe_source(access.pc));
  if (access.kind == AccessKind::load_write) {
    const auto& [block, offset] = cluster.mbarrier_of_entity[static_cast<std::size_t>(access.entity - cluster.first_mbarrier)];
    const TileOrigin& origin = cluster.log.origin(access.origin);
    out += fmt::format(" of {} column {}, row {}, which completes phase {} of {}", describe_map(static_cast<const TensorMap*>(origin.map)),
                       origin.coordinate[0], origin.coordinate[1], access.time - 1, kernel.shared.name(offset));
    if (block->rank != 0) out += fmt::format(" of block rank {}", block->rank);
  }
  return out;
}

std::string Machine::describe_map(const TensorMap* map) const { return kernel.map_name ? kernel.map_name(map, config.params) : std::string("a tensor"); }

std::string Machine::name_of_barrier(int id) const {
  const auto index = static_cast<std::size_t>(id);
  if (index < kernel.named_barriers.size()) return fmt::format("{} (bar {})", kernel.named_barriers[index], id);
  return fmt::format("bar {}", id);
}

// Of one cluster, or of all.
std::string Machine::describe_barriers(const Cluster* only) const {
  std::string out;
  for (const auto& cluster : resident_) {
    if (only != nullptr && cluster.get() != only) continue;
    for (const auto& block : cluster->blocks) {
      out += fmt::format("  barriers of block {}\n", block->index);
      for (const auto& [offset, barrier] : block->mbarriers) out += fmt::format("    {}\n", tandem::model::describe(barrier, *block));
      for (std::size_t id = 0; id < block->named.size(); ++id) {
        const NamedBarrierState& barrier = block->named[id];
        if (barrier.threads == 0) continue;
        out += fmt::format("    {}: {} of {} threads have come: warps", name_of_barrier(static_cast<int>(id)), barrier.arrived, barrier.threads);
        for (const Warp* warp : barrier.warps) out += fmt::format(" {}", warp->index);
        out += "\n";
      }
    }
  }
  return out;
}

std::string Machine::describe_waiting() const {
  std::string out;
  for (const auto& cluster : resident_) {
    for (const auto& block : cluster->blocks) {
      for (const auto& warp : block->warps) {
        // Lanes that wait for the same thing at the same line make one entry.
        std::vector<std::pair<std::string, std::uint32_t>> groups;
        for (int lane = 0; lane < kWarpSize; ++lane) {
          const Thread& thread = warp->thread(lane);
          if (thread.done) continue;
          std::string text = thread.operation;
          if (thread.waiting != nullptr)
            text += " " + thread.waiting(thread);
          else if ((warp->collective.arrived >> lane & 1) != 0 && warp->collective.arrived != kFullWarp)
            text += " (for the other lanes)";
          text += " at " + describe_source(thread.pc);
          const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == text; });
          if (found == groups.end())
            groups.emplace_back(std::move(text), 1u << lane);
          else
            found->second |= 1u << lane;
        }
        for (const auto& [text, lanes] : groups)
          out += fmt::format("    {}{}: {}\n", describe_warp(*warp), lanes == kFullWarp ? std::string() : fmt::format(" lanes {:#010x}", lanes), text);
      }
    }
  }
  return out.empty() ? out : "  who waits\n" + out;
}

void Machine::fail_livelock(const Thread* actor) { fail(Fault::livelock, kernel.name, "the launch does not come to an end", actor); }

void Machine::fail_exited_lanes(Thread& thread) {
  fail(Fault::diverged_warp, thread.warp->collective.arrived != 0 ? thread.warp->collective.operation : thread.operation,
       fmt::format("lanes {:#010x} of the warp have left the kernel, and others execute it", ~thread.warp->live), &thread);
}

void Machine::fail_diverged(Thread& thread) {
  const Collective& collective = thread.warp->collective;
  fail(Fault::diverged_warp, thread.operation, fmt::format("lanes {:#010x} of the warp are in {}", collective.arrived, collective.operation), &thread);
}

void Machine::fail_deadlock() {
  // The object: what most threads wait for, counted over the blocks that still run; a barrier before a collective.
  std::vector<std::pair<std::string, int>> objects;
  const Thread* actor = nullptr;
  bool pool = false;
  for (const auto& cluster : resident_)
    for (const auto& block : cluster->blocks)
      for (const auto& thread : block->threads) {
        if (thread->done || thread->waiting == nullptr) continue;
        if (actor == nullptr) actor = thread.get();
        if (std::strcmp(thread->operation, "setmaxnreg.inc") == 0) {
          pool = true;
          actor = thread.get();
        }
        const std::string name = thread->waiting(*thread);
        const auto found = std::find_if(objects.begin(), objects.end(), [&](const auto& entry) { return entry.first == name; });
        if (found == objects.end())
          objects.emplace_back(name, 1);
        else
          ++found->second;
      }
  if (pool) fail(Fault::register_pool, "register file", "setmaxnreg.inc waits for registers that nobody will give back", actor);
  std::string names;
  for (const auto& [name, count] : objects) names += (names.empty() ? "" : "; ") + name;
  fail(Fault::deadlock, names.empty() ? kernel.name : names, "no thread can run, no copy and no WGMMA is in flight, and threads still wait", actor);
}

}  // namespace tandem::model
