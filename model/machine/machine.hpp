// The machine: plays one launch on one OS thread. It draws who runs next, threads and asynchronous engines alike, and stops at the first fault.
#pragma once

#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "machine/block.hpp"
#include "machine/copy.hpp"
#include "machine/launch.hpp"
#include "machine/policy.hpp"
#include "machine/timing.hpp"

namespace tandem::model {

// Ends the launch from where a fault was found.
struct Stopped : std::exception {};

// The thread that runs now on this OS thread; nullptr while the scheduler runs.
extern thread_local Thread* current_thread;

class Machine {
 public:
  Machine(const KernelImage& kernel, const LaunchConfig& config);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  LaunchReport run();

  // ---- scheduling, called on the thread concerned

  // The start of every operation of the vocabulary. `pc`: where the kernel calls it.
  void enter(Thread& thread, const char* operation, const void* pc);

  // Gives way until `ready()`. Whoever changes what it depends on wakes the queue.
  template <class Ready>
  void wait(WaitQueue& queue, Thread& thread, std::string (*what)(const Thread&), const void* object, std::uint32_t detail, Ready&& ready) {
    while (!ready()) {
      thread.waiting = what;
      thread.waiting_for = object;
      thread.waiting_detail = detail;
      queue.threads.push_back(&thread);
      block(thread);
    }
    thread.waiting = nullptr;
  }
  void wake(WaitQueue& queue);

  // An operation of the whole warp. The last lane that comes runs `perform(arguments of all lanes)`, the others go on after it.
  template <class Perform>
  void converge(Thread& thread, void* argument, Perform&& perform) {
    Warp& warp = *thread.warp;
    Collective& collective = warp.collective;
    if (warp.live != kFullWarp) fail_exited_lanes(thread);
    if (collective.arrived == 0)
      collective.operation = thread.operation;
    else if (std::strcmp(collective.operation, thread.operation) != 0)
      fail_diverged(thread);
    collective.arguments[static_cast<std::size_t>(thread.lane)] = argument;
    collective.arrived |= 1u << thread.lane;
    if (collective.arrived == kFullWarp) {
      perform(collective.arguments);
      collective.arrived = 0;
      ++collective.round;
      for (int lane = 0; lane < kWarpSize; ++lane)
        if (lane != thread.lane) set_runnable(warp.thread(lane));
      return;
    }
    for (const std::uint32_t round = collective.round; collective.round == round;) block(thread);
  }

  // ---- virtual time, of a launch that is timed

  // Lane 0 pays for its warp.
  void spend(Thread& thread, Cycle cycles);
  // Lets run whatever is due before the thread's warp.
  void give_way(Thread& thread);

  // ---- happens-before

  void learn(Thread& thread, ClockView clock);
  void learn(Thread& thread, Entity entity, std::uint32_t time);
  // What the thread knows, and has done, is in `into`; what it does from now on is later.
  void release(Thread& thread, Clock into);
  // What the lanes of a warp know together.
  ClockView joined(Warp& warp);

  // ---- asynchronous work

  void start(std::unique_ptr<Copy> copy);
  void started_wgmma(Warp& warp);

  // ---- faults: the first one ends the launch

  [[noreturn]] void fail(Fault fault, std::string object, std::string message, const Thread* actor);
  [[noreturn]] void fail(const Conflict& conflict, Block& block, const Access& access, const std::string& action);
  std::string describe(const Thread& thread) const;
  std::string describe(const Access& access, const Cluster& cluster) const;
  std::string describe_map(const TensorMap* map) const;
  std::string name_of_barrier(int id) const;  // bar.sync

  const KernelImage& kernel;
  const LaunchConfig& config;
  GlobalMemory& memory;
  Random random;
  Policy policy;
  Statistics statistics;
  std::unique_ptr<Timing> timing;  // nullptr: chance says who is next

 private:
  void admit_clusters();
  std::unique_ptr<Cluster> make_cluster(int index);
  static void run_thread(void* argument);
  void finish(Thread& thread);
  void finish_block(Block& block, const Thread& last);
  void set_runnable(Thread& thread);
  void block(Thread& thread);
  Thread& draw_thread();
  void resume(Thread& thread);
  bool step_by_chance();
  bool step_engines(bool threads_can_run);
  bool step_in_time();
  // What happens next in virtual time, if `except` does not run.
  struct Due {
    enum class What { nothing, warp, load, store, multiplied };
    Cycle time = kNever;
    What what = What::nothing;
    std::size_t index = 0;
  };
  Due next_due(const Warp* except) const;
  void reap_clusters();

  [[noreturn]] void fail_exited_lanes(Thread& thread);
  [[noreturn]] void fail_diverged(Thread& thread);
  [[noreturn]] void fail_deadlock();
  [[noreturn]] void fail_livelock(const Thread* actor);
  std::string describe_conflict(const Conflict& conflict, const Cluster& cluster, const std::string& action, Fault& fault) const;
  std::string describe_barriers(const Cluster* only) const;
  std::string describe_waiting() const;
  std::string describe_warp(const Warp& warp) const;

  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<int> waiting_clusters_;
  std::vector<Warp*> runnable_;
  Warp* last_ = nullptr;
  bool cluster_finished_ = false;
  std::vector<std::unique_ptr<Copy>> loads_;
  std::vector<std::unique_ptr<Copy>> stores_;
  std::vector<Warp*> multiplying_;
  std::optional<Diagnosis> failure_;
  std::uint64_t steps_ = 0;  // of the scheduler, and operations
};

}  // namespace tandem::model
