#include "machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "machine/source.hpp"

namespace tandem::model {
namespace {

constexpr int kRegistersPerSm = 65'536;
constexpr int kRegisterGranule = 8;
constexpr int kMostRegisters = 255;  // that a compiler gives a thread
constexpr int kMbarriersPerBlock = 64;

// What the launch bounds leave a thread.
int registers_at_launch(const KernelImage& kernel) {
  return std::min(kRegistersPerSm / kernel.ctas_per_sm / kernel.threads / kRegisterGranule * kRegisterGranule, kMostRegisters + 1);
}

}  // namespace

thread_local Thread* current_thread = nullptr;

Statistics& Statistics::operator+=(const Statistics& other) {
  switches += other.switches;
  loads += other.loads;
  stores += other.stores;
  wgmmas += other.wgmmas;
  wavefronts += other.wavefronts;
  extra_wavefronts += other.extra_wavefronts;
  return *this;
}

Cluster::Cluster(int cluster_index, int threads, int warps, int mbarriers)
    : index(cluster_index),
      live(threads),
      clocks(threads + 3 * warps + mbarriers),
      fences(threads),
      entities(threads),
      entity_limit(threads + 3 * warps + mbarriers) {}

Machine::Machine(const KernelImage& image, const LaunchConfig& launch_config)
    : kernel(image), config(launch_config), memory(*launch_config.memory), random(launch_config.seed), policy(Policy::draw(random)) {
  if (config.timed) {
    timing = std::make_unique<Timing>();
    policy = Policy::in_time(kernel.ctas_per_sm);
  }
  waiting_clusters_.resize(static_cast<std::size_t>(config.grid / kernel.cluster));
  std::iota(waiting_clusters_.begin(), waiting_clusters_.end(), 0);
  // Blocks start in any order; the hardware mostly takes them from the first.
  if (!timing && random.chance(128))
    for (std::size_t i = waiting_clusters_.size(); i > 1; --i)
      std::swap(waiting_clusters_[i - 1], waiting_clusters_[random.below(static_cast<std::uint32_t>(i))]);
  std::reverse(waiting_clusters_.begin(), waiting_clusters_.end());  // taken from the back
}

Machine::~Machine() = default;

// ---------------------------------------------------------------------------------------------------------------------------- the launch

LaunchReport Machine::run() {
  try {
    admit_clusters();
    while (!failure_) {
      if (cluster_finished_) reap_clusters();
      if (++steps_ > config.most_steps) fail_livelock(nullptr);
      if (timing ? step_in_time() : step_by_chance()) continue;
      if (resident_.empty()) break;
      fail_deadlock();
    }
    if (!failure_)
      if (const auto unwritten = memory.find_unwritten()) fail(Fault::unwritten_output, unwritten->object, unwritten->message, nullptr);
  } catch (const Stopped&) {
  }
  LaunchReport report;
  report.diagnosis = std::move(failure_);
  report.statistics = statistics;
  return report;
}

void Machine::admit_clusters() {
  while (!waiting_clusters_.empty() && static_cast<int>(resident_.size()) < policy.resident_clusters) {
    resident_.push_back(make_cluster(waiting_clusters_.back()));
    waiting_clusters_.pop_back();
  }
}

std::unique_ptr<Cluster> Machine::make_cluster(int index) {
  const int warps_a_block = kernel.threads / kWarpSize;
  auto cluster = std::make_unique<Cluster>(index, kernel.threads * kernel.cluster, warps_a_block * kernel.cluster, kMbarriersPerBlock * kernel.cluster);
  cluster->arriving = cluster->clocks.allocate();
  for (int rank = 0; rank < kernel.cluster; ++rank) {
    auto block = std::make_unique<Block>(*cluster, kernel.shared_bytes);
    block->index = index * kernel.cluster + rank;
    block->rank = rank;
    block->live = kernel.threads;
    for (NamedBarrierState& barrier : block->named) barrier.arriving = cluster->clocks.allocate();
    const auto new_entity = [&] { return static_cast<Entity>(cluster->entities++); };
    for (int i = 0; i < warps_a_block; ++i) {
      auto warp = std::make_unique<Warp>();
      warp->block = block.get();
      warp->index = i;
      warp->slow = random.chance(policy.slow_warps);
      warp->elected = timing ? 0 : static_cast<int>(random.below(kWarpSize));  // lane 0 keeps the clock
      if (timing) warp->time = timing->now;
      warp->registers = registers_at_launch(kernel);
      warp->matrix_entity = new_entity();
      warp->wgmma_entity = new_entity();
      warp->bulk_entity = new_entity();
      warp->joined = cluster->clocks.allocate();
      warp->joined_knowledge = ~0ull;
      block->warps.push_back(std::move(warp));
    }
    for (int i = 0; i < kernel.threads; ++i) {
      auto thread = std::make_unique<Thread>();
      thread->machine = this;
      thread->block = block.get();
      thread->warp = block->warps[static_cast<std::size_t>(i / kWarpSize)].get();
      thread->index = i;
      thread->lane = i % kWarpSize;
      thread->in_cluster = rank * kernel.threads + i;
      thread->clock = cluster->clocks.allocate();
      thread->clock[thread->in_cluster] = 1;
      thread->fiber.start(run_thread, thread.get());
      thread->epoch = ++thread->fiber.stack().last_epoch;
      set_runnable(*thread);
      block->threads.push_back(std::move(thread));
    }
    cluster->blocks.push_back(std::move(block));
  }
  cluster->first_mbarrier = cluster->entities;
  return cluster;
}

void Machine::run_thread(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Machine& machine = *thread.machine;
  try {
    machine.kernel.entry(machine.config.params);
    machine.enter(thread, "exit", thread.pc);
    machine.finish(thread);
  } catch (const Stopped&) {
    thread.fiber.discard_stack();
  }
}

void Machine::finish(Thread& thread) {
  Warp& warp = *thread.warp;
  thread.done = true;
  warp.live &= ~(1u << thread.lane);
  if (warp.collective.arrived != 0) fail_exited_lanes(thread);
  Block& block = *thread.block;
  if (--block.live == 0) finish_block(block, thread);
  Cluster& cluster = *block.cluster;
  if (--cluster.live == 0) cluster_finished_ = true;
  wake(cluster.waiters);  // barrier.cluster counts the threads that are still there
}

// Whatever uses the block's memory must have been waited for: by luck it may have ended, but nothing made sure of it.
void Machine::finish_block(Block& block, const Thread& last) {
  for (const auto& thread : block.threads) {
    for (std::size_t group = thread->bulk_waited; group < thread->bulk.size(); ++group)
      if (thread->bulk[group].stores > 0)
        fail(Fault::unfinished_work, "TMA store", "the block exits, and nobody has waited until a store has read the block's shared memory", thread.get());
  }
  for (const auto& warp : block.warps)
    if (!warp->tensor_core.flight.empty())
      fail(Fault::unfinished_work, "wgmma", fmt::format("the block exits with {} WGMMAs that nobody waited for", warp->tensor_core.flight.size()),
           &warp->thread(0));
  for (std::size_t id = 0; id < block.named.size(); ++id)
    if (block.named[id].threads != 0)
      fail(Fault::named_barrier, name_of_barrier(static_cast<int>(id)),
           fmt::format("the block exits with {} of {} threads arrived", block.named[id].arrived, block.named[id].threads), &last);
  for (const auto& [offset, barrier] : block.mbarriers)
    if (barrier.loaded > barrier.observed)
      fail(Fault::unfinished_work, kernel.shared.name(offset), "the block exits, and nobody has waited for loads into its shared memory", &last);
}

void Machine::reap_clusters() {
  last_ = nullptr;
  cluster_finished_ = false;
  std::erase_if(resident_, [&](const std::unique_ptr<Cluster>& cluster) {
    // Stores read their source before the block ends (finish_block), but may still have to write: the copies keep pointers to threads.
    const auto busy = [&](const std::unique_ptr<Copy>& copy) { return copy->block->cluster == cluster.get(); };
    if (cluster->live > 0) return false;
    if (std::any_of(stores_.begin(), stores_.end(), busy) || std::any_of(loads_.begin(), loads_.end(), busy)) {
      cluster_finished_ = true;
      return false;
    }
    return true;
  });
  admit_clusters();
}

// ------------------------------------------------------------------------------------------------------------------------------ scheduling

void Machine::set_runnable(Thread& thread) {
  Warp& warp = *thread.warp;
  if (warp.runnable == 0) {
    warp.queue_place = static_cast<int>(runnable_.size());
    runnable_.push_back(&warp);
  }
  warp.runnable |= 1u << thread.lane;
}

// Back to the scheduler; somebody must make the thread runnable again.
void Machine::block(Thread& thread) { thread.fiber.suspend(); }

void Machine::wake(WaitQueue& queue) {
  for (Thread* thread : queue.threads) {
    set_runnable(*thread);
    if (timing) thread->warp->time = std::max(thread->warp->time, timing->now + kWakeCycles);
  }
  queue.threads.clear();
}

Thread& Machine::draw_thread() {
  Warp* warp = last_;
  if (warp == nullptr || warp->runnable == 0 || !random.chance(policy.stay)) {
    warp = runnable_[random.below(static_cast<std::uint32_t>(runnable_.size()))];
    for (int tries = 0; tries < 4 && warp->slow && random.chance(policy.hold_slow); ++tries)
      warp = runnable_[random.below(static_cast<std::uint32_t>(runnable_.size()))];
    last_ = warp;
  }
  int lane = std::countr_zero(warp->runnable);
  if (policy.random_lanes)
    for (std::uint32_t skip = random.below(static_cast<std::uint32_t>(std::popcount(warp->runnable))), rest = warp->runnable; skip > 0; --skip) {
      rest &= rest - 1;
      lane = std::countr_zero(rest);
    }
  return warp->thread(lane);
}

void Machine::resume(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.runnable &= ~(1u << thread.lane);
  if (warp.runnable == 0) {
    runnable_[static_cast<std::size_t>(warp.queue_place)] = runnable_.back();
    runnable_[static_cast<std::size_t>(warp.queue_place)]->queue_place = warp.queue_place;
    runnable_.pop_back();
    warp.queue_place = -1;
  }
  ++statistics.switches;
  if (timing) timing->now = warp.time;
  current_thread = &thread;
  thread.fiber.resume();
  current_thread = nullptr;
}

void Machine::enter(Thread& thread, const char* operation, const void* pc) {
  if (!thread.unissued.empty()) {
    thread.operation = "wgmma";
    thread.pc = thread.unissued.back().pc;
    converge(thread, nullptr, [&](auto&) { issue_wgmmas(*this, thread); });
  }
  thread.operation = operation;
  thread.pc = pc;
  if (++steps_ > config.most_steps) fail_livelock(&thread);
  if (timing) spend(thread, cycles_of(operation));
  if (policy.preempt != 0 && random.chance(policy.preempt)) {
    set_runnable(thread);
    last_ = nullptr;
    block(thread);
  }
}

bool Machine::step_by_chance() {
  const bool threads_can_run = !runnable_.empty();
  if (step_engines(threads_can_run)) return true;
  if (threads_can_run) resume(draw_thread());
  return threads_can_run;
}

// An engine takes a step by chance, or because no thread can.
bool Machine::step_engines(bool threads_can_run) {
  const auto step_any = [&](std::vector<std::unique_ptr<Copy>>& copies) {
    const std::size_t i = random.below(static_cast<std::uint32_t>(copies.size()));
    if (!step(*this, *copies[i])) return;
    std::swap(copies[i], copies.back());
    copies.pop_back();
  };
  const auto step_wgmma = [&] {
    const std::size_t i = random.below(static_cast<std::uint32_t>(multiplying_.size()));
    Warp& warp = *multiplying_[i];
    execute_wgmma(*this, warp);
    if (warp.tensor_core.executed != warp.tensor_core.issued) return;
    multiplying_[i] = multiplying_.back();
    multiplying_.pop_back();
  };
  if (threads_can_run) {
    if (!loads_.empty() && random.chance(policy.load)) return step_any(loads_), true;
    if (!stores_.empty() && random.chance(policy.store)) return step_any(stores_), true;
    if (!multiplying_.empty() && random.chance(policy.wgmma)) return step_wgmma(), true;
    return false;
  }
  // Any engine that has work, each as likely as another.
  const std::size_t first = random.below(3);
  for (std::size_t i = 0; i < 3; ++i) {
    switch ((first + i) % 3) {
      case 0:
        if (!loads_.empty()) return step_any(loads_), true;
        break;
      case 1:
        if (!stores_.empty()) return step_any(stores_), true;
        break;
      default:
        if (!multiplying_.empty()) return step_wgmma(), true;
    }
  }
  return false;
}

void Machine::start(std::unique_ptr<Copy> copy) {
  copy->rows_a_step = std::max(1u, copy->map.rows() / policy.load_pieces);
  ++(copy->load ? statistics.loads : statistics.stores);
  if (timing) copy->due = timing->arrival(*copy);
  (copy->load ? loads_ : stores_).push_back(std::move(copy));
}

void Machine::started_wgmma(Warp& warp) { multiplying_.push_back(&warp); }

// -------------------------------------------------------------------------------------------------------------------------- happens-before

void Machine::learn(Thread& thread, ClockView clock) {
  thread.block->cluster->clocks.join(thread.clock, clock);
  ++thread.knowledge;
}

void Machine::learn(Thread& thread, Entity entity, std::uint32_t time) {
  if (thread.clock[entity] >= time) return;
  thread.clock[entity] = time;
  ++thread.knowledge;
}

void Machine::release(Thread& thread, Clock into) {
  thread.block->cluster->clocks.join(into, thread.clock);
  ++thread.clock[thread.in_cluster];
  ++thread.knowledge;
}

ClockView Machine::joined(Warp& warp) {
  std::uint64_t knowledge = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) knowledge += warp.thread(lane).knowledge;
  if (knowledge == warp.joined_knowledge) return warp.joined;
  warp.joined_knowledge = knowledge;
  const ClockBank& clocks = warp.block->cluster->clocks;
  for (int lane = 0; lane < kWarpSize; ++lane) clocks.join(warp.joined, warp.thread(lane).clock);
  return warp.joined;
}

// ---------------------------------------------------------------------------------------------------------------------------------- entry

LaunchReport launch(const KernelImage& kernel, const LaunchConfig& config) {
  if (config.grid == 0) return {};
  return std::make_unique<Machine>(kernel, config)->run();
}

std::optional<std::uint64_t> seed_from_environment() {
  const char* text = std::getenv("TANDEM_MODEL_SEED");
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

}  // namespace tandem::model
