// Barriers, and everything in which threads wait for each other.
#include <fmt/format.h>

#include <algorithm>

#include "machine/device.hpp"
#include "machine/mbarrier.hpp"
#include "machine/operation.hpp"

namespace tandem::model {
namespace {

constexpr std::uint32_t kMbarrierBytes = 8;

Mbarrier& mbarrier_at(Machine& machine, Thread& thread, void* barrier) {
  return find_mbarrier(machine, *thread.block, shared_offset(machine, thread, barrier, kMbarrierBytes), thread, false);
}

// All lanes of the warp release into `into`.
void release_warp(Machine& machine, Warp& warp, Clock into) {
  warp.block->cluster->clocks.join(into, machine.joined(warp));
  for (int lane = 0; lane < kWarpSize; ++lane) {
    Thread& thread = warp.thread(lane);
    ++thread.clock[thread.in_cluster];
    ++thread.knowledge;
  }
}

void learn_warp(Machine& machine, Warp& warp, ClockView clock) {
  for (int lane = 0; lane < kWarpSize; ++lane) machine.learn(warp.thread(lane), clock);
}

std::string describe_named(const Thread& thread) { return thread.machine->name_of_barrier(static_cast<int>(thread.waiting_detail)); }
std::string describe_cluster(const Thread&) { return "barrier.cluster"; }
std::string describe_pool(const Thread& thread) {
  return fmt::format("{} registers a thread, {} of the block's are free", thread.waiting_detail, thread.block->pool);
}

void come_to_named_barrier(Machine& machine, Thread& thread, int id, int threads, bool waits) {
  machine.converge(thread, nullptr, [&](auto&) {
    Warp& warp = *thread.warp;
    Block& block = *thread.block;
    if (id < 0 || id >= kNamedBarriers) machine.fail(Fault::named_barrier, fmt::format("bar {}", id), "there are barriers 0 to 15", &thread);
    const std::string name = machine.name_of_barrier(id);
    if (threads < kWarpSize || threads % kWarpSize != 0 || threads > machine.kernel.threads)
      machine.fail(Fault::named_barrier, name, fmt::format("counts {} threads; it takes multiples of 32 up to the block's {}", threads, machine.kernel.threads),
                   &thread);
    NamedBarrierState& barrier = block.named[static_cast<std::size_t>(id)];
    if (barrier.threads != 0 && barrier.threads != threads)
      machine.fail(Fault::named_barrier, name, fmt::format("counts {} threads here and {} elsewhere", threads, barrier.threads), &thread);
    // Once to arrive and once to wait is how the first of a round of turns is taken; to arrive twice is always a mistake.
    if (!waits && std::find(barrier.warps.begin(), barrier.warps.end(), &warp) != barrier.warps.end())
      machine.fail(Fault::named_barrier, name, "the warp arrives a second time before the barrier has completed", &thread);
    barrier.threads = threads;
    barrier.arrived += kWarpSize;
    barrier.warps.push_back(&warp);
    if (waits) barrier.waiting.push_back(&warp);
    release_warp(machine, warp, barrier.arriving);
    const std::uint32_t round = barrier.round;
    if (barrier.arrived == barrier.threads) {
      if (barrier.waiting.empty()) machine.fail(Fault::named_barrier, name, "all warps have only arrived, and nobody waited", &thread);
      for (Warp* waiting : barrier.waiting) learn_warp(machine, *waiting, barrier.arriving);
      block.cluster->clocks.clear(barrier.arriving);
      barrier.threads = barrier.arrived = 0;
      barrier.warps.clear();
      barrier.waiting.clear();
      ++barrier.round;
      machine.wake(barrier.waiters);
    } else if (waits) {
      machine.wait(barrier.waiters, thread, describe_named, &barrier, static_cast<std::uint32_t>(id), [&] { return barrier.round != round; });
    }
  });
}

void check_registers(Machine& machine, Thread& thread, int registers) {
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    machine.fail(Fault::register_pool, "register file", fmt::format("{} {}; it takes multiples of 8 from 24 to 256", thread.operation, registers), &thread);
}

}  // namespace

namespace device {

void mbarrier_init(void* barrier, int arrivals) {
  TANDEM_ENTER("mbarrier.init");
  initialise(machine, *thread.block, shared_offset(machine, thread, barrier, kMbarrierBytes), arrivals, thread);
}

void mbarrier_arrive_expect_tx(void* barrier, int bytes) {
  TANDEM_ENTER("mbarrier.arrive.expect_tx");
  Mbarrier& at = mbarrier_at(machine, thread, barrier);
  expect_bytes(machine, *thread.block, at, bytes, thread);
  arrive(machine, *thread.block, at, thread);
}

void mbarrier_arrive(void* barrier) {
  TANDEM_ENTER("mbarrier.arrive");
  arrive(machine, *thread.block, mbarrier_at(machine, thread, barrier), thread);
}

void mbarrier_arrive_remote(void* barrier, int cta_rank) {
  TANDEM_ENTER("mbarrier.arrive.cluster");
  const std::uint32_t offset = shared_offset(machine, thread, barrier, kMbarrierBytes);
  Cluster& cluster = *thread.block->cluster;
  if (cta_rank < 0 || cta_rank >= static_cast<int>(cluster.blocks.size()))
    machine.fail(Fault::barrier_misuse, machine.kernel.shared.name(offset), fmt::format("the cluster has no block of rank {}", cta_rank), &thread);
  Block& block = *cluster.blocks[static_cast<std::size_t>(cta_rank)];
  if (block.live == 0)
    machine.fail(Fault::unfinished_work, machine.kernel.shared.name(offset), fmt::format("arrives at block rank {}, which has left the kernel", cta_rank),
                 &thread);
  arrive(machine, block, find_mbarrier(machine, block, offset, thread, true), thread);
}

void mbarrier_wait(void* barrier, std::uint32_t parity) {
  TANDEM_ENTER("mbarrier.wait");
  wait(machine, *thread.block, mbarrier_at(machine, thread, barrier), parity, thread);
}

void block_sync() {
  TANDEM_ENTER("bar.sync");
  come_to_named_barrier(machine, thread, 0, machine.kernel.threads, true);
}

void named_barrier_sync(int id, int threads) {
  TANDEM_ENTER("bar.sync");
  come_to_named_barrier(machine, thread, id, threads, true);
}

void named_barrier_arrive(int id, int threads) {
  TANDEM_ENTER("bar.arrive");
  come_to_named_barrier(machine, thread, id, threads, false);
}

void cluster_sync() {
  TANDEM_ENTER("barrier.cluster");
  machine.converge(thread, nullptr, [&](auto&) {
    Cluster& cluster = *thread.block->cluster;
    release_warp(machine, *thread.warp, cluster.arriving);
    cluster.arrived += kWarpSize;
    cluster.waiting.push_back(thread.warp);
    const std::uint32_t round = cluster.round;
    machine.wait(cluster.waiters, thread, describe_cluster, &cluster, 0, [&] {
      if (cluster.round != round) return true;
      if (cluster.arrived < cluster.live) return false;  // threads that have left count as arrived
      for (Warp* waiting : cluster.waiting) learn_warp(machine, *waiting, cluster.arriving);
      cluster.waiting.clear();
      cluster.arrived = 0;
      ++cluster.round;
      machine.wake(cluster.waiters);
      return true;
    });
  });
}

void setmaxnreg_dec(int registers) {
  TANDEM_ENTER("setmaxnreg.dec");
  check_registers(machine, thread, registers);
  machine.converge(thread, nullptr, [&](auto&) {
    Warp& warp = *thread.warp;
    if (registers > warp.registers)
      machine.fail(Fault::register_pool, "register file", fmt::format("setmaxnreg.dec {} where a thread has {}", registers, warp.registers), &thread);
    thread.block->pool += (warp.registers - registers) * kWarpSize;
    warp.registers = registers;
    machine.wake(thread.block->pool_waiters);
  });
}

void setmaxnreg_inc(int registers) {
  TANDEM_ENTER("setmaxnreg.inc");
  check_registers(machine, thread, registers);
  machine.converge(thread, nullptr, [&](auto&) {
    Warp& warp = *thread.warp;
    Block& block = *thread.block;
    if (registers < warp.registers)
      machine.fail(Fault::register_pool, "register file", fmt::format("setmaxnreg.inc {} where a thread has {}", registers, warp.registers), &thread);
    const int needed = (registers - warp.registers) * kWarpSize;
    machine.wait(block.pool_waiters, thread, describe_pool, &block, static_cast<std::uint32_t>(registers), [&] { return block.pool >= needed; });
    block.pool -= needed;
    warp.registers = registers;
  });
}

namespace {

struct Exchange {
  std::uint32_t value;
  int source;
  std::uint32_t result;
};

std::uint32_t exchange(Machine& machine, Thread& thread, std::uint32_t value, int source) {
  if (source < 0 || source >= kWarpSize) machine.fail(Fault::diverged_warp, thread.operation, fmt::format("takes the value of lane {}", source), &thread);
  Exchange mine{value, source, 0};
  machine.converge(thread, &mine, [](auto& arguments) {
    for (void* argument : arguments) {
      auto& lane = *static_cast<Exchange*>(argument);
      lane.result = static_cast<const Exchange*>(arguments[static_cast<std::size_t>(lane.source)])->value;
    }
  });
  return mine.result;
}

}  // namespace

std::uint32_t shuffle(std::uint32_t value, int source_lane) {
  TANDEM_ENTER("shfl");
  return exchange(machine, thread, value, source_lane);
}

std::uint32_t shuffle_xor(std::uint32_t value, int lane_mask) {
  TANDEM_ENTER("shfl");
  return exchange(machine, thread, value, thread.lane ^ lane_mask);
}

bool warp_any(bool predicate) {
  TANDEM_ENTER("vote");
  Exchange mine{predicate ? 1u : 0u, 0, 0};
  machine.converge(thread, &mine, [](auto& arguments) {
    std::uint32_t any = 0;
    for (void* argument : arguments) any |= static_cast<const Exchange*>(argument)->value;
    for (void* argument : arguments) static_cast<Exchange*>(argument)->result = any;
  });
  return mine.result != 0;
}

// The only exchange in a warp that orders memory.
void warp_sync() {
  TANDEM_ENTER("bar.warp.sync");
  machine.converge(thread, nullptr, [&](auto&) {
    Warp& warp = *thread.warp;
    const ClockView together = machine.joined(warp);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      Thread& other = warp.thread(lane);
      machine.learn(other, together);
      ++other.clock[other.in_cluster];
    }
  });
}

bool elect_one() {
  TANDEM_ENTER("elect");
  machine.converge(thread, nullptr, [](auto&) {});
  return thread.lane == thread.warp->elected;
}

}  // namespace device
}  // namespace tandem::model
