#include "machine/mbarrier.hpp"

#include <fmt/format.h>

#include "machine/machine.hpp"

namespace tandem::model {
namespace {

constexpr std::uint32_t kBarrierBytes = 8;
constexpr int kMaxArrivals = (1 << 20) - 1;
constexpr std::int64_t kMaxBytes = (1 << 20) - 1;

const SharedLayout& layout(const Machine& machine) { return machine.kernel.shared; }

void complete_if_due(Machine& machine, Block& block, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  const ClockBank& clocks = block.cluster->clocks;
  clocks.join(barrier.completed, barrier.arriving);
  clocks.clear(barrier.arriving);
  ++barrier.phase;
  barrier.completed[barrier.entity] = barrier.phase;
  barrier.pending = barrier.expected;
  barrier.arrivals.clear();
  machine.wake(barrier.waiters);
}

std::string describe_wait(const Thread& thread) {
  const auto& barrier = *static_cast<const Mbarrier*>(thread.waiting_for);
  return fmt::format("{}, parity {}", thread.machine->kernel.shared.name(barrier.offset), thread.waiting_detail);
}

}  // namespace

std::string describe(const Mbarrier& barrier, const Block& block) {
  const Thread& any = *block.threads.front();
  std::string out =
      fmt::format("{}: phase {}, {} of {} arrivals missing", layout(*any.machine).name(barrier.offset), barrier.phase, barrier.pending, barrier.expected);
  if (barrier.bytes != 0) out += fmt::format(", {} bytes {}", std::abs(barrier.bytes), barrier.bytes > 0 ? "missing" : "too many");
  if (!barrier.arrivals.empty() && barrier.pending != 0) {
    out += ", arrived:";
    for (const Mbarrier::Arrival& arrival : barrier.arrivals) out += fmt::format(" warp {} lane {},", arrival.thread->warp->index, arrival.thread->lane);
    out.pop_back();
  }
  return out;
}

Mbarrier& find_mbarrier(Machine& machine, Block& block, std::uint32_t offset, Thread& thread, bool fenced) {
  const auto found = block.mbarriers.find(offset);
  const std::string& operation = thread.operation;
  if (found == block.mbarriers.end())
    machine.fail(Fault::barrier_misuse, layout(machine).describe(offset), fmt::format("{} on a barrier that was never initialised", operation), &thread);
  Mbarrier& barrier = found->second;
  const ClockView clock = thread.clock;
  if (clock[barrier.init.entity] < barrier.init.time)
    machine.fail(Fault::barrier_misuse, layout(machine).name(offset), fmt::format("{} is not ordered after the barrier's initialisation", operation), &thread);
  if (fenced && !barrier.init_fenced) {
    const Thread& initialiser = *block.threads[static_cast<std::size_t>(barrier.init.thread)];
    for (const std::uint32_t time : initialiser.init_fences)
      if (time >= barrier.init.time && clock[barrier.init.entity] >= time) barrier.init_fenced = true;
    if (!barrier.init_fenced && !block.cluster->fences.covers(initialiser.in_cluster, barrier.init.time, clock))
      machine.fail(Fault::missing_proxy_fence, layout(machine).name(offset),
                   fmt::format("{}: the barrier's initialisation was not made visible to copies and other blocks by fence.mbarrier_init", operation), &thread);
    barrier.init_fenced = true;
  }
  return barrier;
}

void initialise(Machine& machine, Block& block, std::uint32_t offset, int arrivals, Thread& thread) {
  if (offset % kBarrierBytes != 0) machine.fail(Fault::misaligned, layout(machine).describe(offset), "an mbarrier must lie at a multiple of 8 bytes", &thread);
  if (arrivals < 1 || arrivals > kMaxArrivals)
    machine.fail(Fault::barrier_misuse, layout(machine).name(offset), fmt::format("initialised with {} arrivals; it takes 1 to 2^20 - 1", arrivals), &thread);
  Mbarrier& barrier = block.mbarriers[offset];
  if (barrier.arriving != nullptr)
    machine.fail(Fault::barrier_misuse, layout(machine).name(offset), fmt::format("initialised again, in phase {}", barrier.phase), &thread);
  Cluster& cluster = *block.cluster;
  if (cluster.entities == cluster.entity_limit)
    machine.fail(Fault::barrier_misuse, layout(machine).name(offset), "the model follows at most 64 mbarriers a block", &thread);
  barrier.offset = offset;
  barrier.expected = barrier.pending = static_cast<std::uint32_t>(arrivals);
  barrier.entity = static_cast<Entity>(cluster.entities++);
  cluster.mbarrier_of_entity.emplace_back(&block, offset);
  barrier.arriving = cluster.clocks.allocate();
  barrier.completed = cluster.clocks.allocate();
  barrier.init.entity = static_cast<Entity>(thread.in_cluster);
  barrier.init.time = thread.time();
  barrier.init.thread = thread.index;
}

void arrive(Machine& machine, Block& block, Mbarrier& barrier, Thread& thread) {
  if (barrier.pending == 0)
    machine.fail(Fault::barrier_over_arrival, layout(machine).name(barrier.offset),
                 fmt::format("an arrival in phase {}, whose {} arrivals have all come ({} bytes are missing)", barrier.phase, barrier.expected, barrier.bytes),
                 &thread);
  --barrier.pending;
  barrier.arrivals.push_back({&thread});
  machine.release(thread, barrier.arriving);
  if (barrier.pending == 0 && barrier.bytes < 0)
    machine.fail(Fault::transaction_count, layout(machine).name(barrier.offset),
                 fmt::format("phase {} has all its arrivals and {} bytes more than were expected", barrier.phase, -barrier.bytes), &thread);
  complete_if_due(machine, block, barrier);
}

void expect_bytes(Machine& machine, Block& block, Mbarrier& barrier, int bytes, Thread& thread) {
  barrier.bytes += bytes;
  if (bytes < 0 || barrier.bytes > kMaxBytes)
    machine.fail(Fault::transaction_count, layout(machine).name(barrier.offset), fmt::format("expects {} bytes; a phase counts up to 2^20 - 1", barrier.bytes),
                 &thread);
  (void)block;
}

void wait(Machine& machine, Block& block, Mbarrier& barrier, std::uint32_t parity, Thread& thread) {
  (void)block;
  if (parity > 1) machine.fail(Fault::barrier_misuse, layout(machine).name(barrier.offset), fmt::format("waits for parity {}", parity), &thread);
  machine.wait(barrier.waiters, thread, describe_wait, &barrier, parity, [&] { return (barrier.phase & 1) != parity; });
  machine.learn(thread, barrier.completed);
  if (barrier.observed < barrier.phase) barrier.observed = barrier.phase;
}

void complete_bytes(Machine& machine, Block& block, Mbarrier& barrier, std::uint32_t bytes, std::uint32_t phase, const Thread& issuer) {
  if (barrier.phase != phase)
    machine.fail(Fault::transaction_count, layout(machine).name(barrier.offset),
                 fmt::format("bytes meant for phase {} arrive in phase {}: fewer bytes were expected than the copies bring", phase, barrier.phase), &issuer);
  barrier.bytes -= bytes;
  if (barrier.pending == 0 && barrier.bytes < 0)
    machine.fail(Fault::transaction_count, layout(machine).name(barrier.offset),
                 fmt::format("phase {} gets {} bytes more than were expected", phase, -barrier.bytes), &issuer);
  complete_if_due(machine, block, barrier);
}

}  // namespace tandem::model
