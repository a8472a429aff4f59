// What a launch is made of: threads in warps in blocks in clusters, and the state of each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "machine/access.hpp"
#include "machine/clock.hpp"
#include "machine/fiber.hpp"
#include "machine/layout.hpp"
#include "machine/operand.hpp"
#include "machine/shared_memory.hpp"
#include "machine/timing.hpp"
#include "machine/wgmma.hpp"

namespace tandem::model {

class Machine;
struct Block;
struct Cluster;
struct Thread;
struct Warp;

constexpr int kWarpSize = 32;
constexpr int kNamedBarriers = 16;
constexpr std::uint32_t kFullWarp = 0xffffffffu;

// Threads that wait for one thing.
struct WaitQueue {
  std::vector<Thread*> threads;
};

// TMA stores of one thread between two commits.
struct BulkGroup {
  int stores = 0;
  int unread = 0;  // that have not read their source
};

struct Thread {
  Machine* machine = nullptr;
  Block* block = nullptr;
  Warp* warp = nullptr;
  int index = 0;  // in the block
  int lane = 0;
  int in_cluster = 0;  // also its entity
  bool done = false;
  Fiber fiber;
  Clock clock = nullptr;
  std::uint32_t knowledge = 0;             // counts changes of `clock`
  std::uint32_t epoch = 0;                 // counts wgmma.fence
  std::vector<WgmmaInstruction> unissued;  // WGMMAs that wait for the rest of the warp
  std::vector<std::uint32_t> init_fences;  // times of fence.mbarrier_init
  std::vector<BulkGroup> bulk{1};          // the last one is open
  std::size_t bulk_waited = 0;             // groups that it has waited for
  WaitQueue bulk_waiters;                  // itself
  const void* pc = nullptr;                // the last operation of the vocabulary
  const char* operation = "start";
  std::string (*waiting)(const Thread&) = nullptr;  // says what it waits for, while it does
  const void* waiting_for = nullptr;
  std::uint32_t waiting_detail = 0;
  const SharedField* tile = nullptr;           // the tile slot that it read last ...
  std::array<unsigned char, 16> tile_bytes{};  // ... and what was in it

  std::uint32_t time() const { return clock[in_cluster]; }
};

// An operation that all lanes of a warp execute together.
struct Collective {
  const char* operation = nullptr;
  std::uint32_t arrived = 0;
  std::uint32_t round = 0;
  std::array<void*, kWarpSize> arguments{};
};

struct Warp {
  Block* block = nullptr;
  int index = 0;  // in the block
  bool slow = false;
  Cycle time = 0;   // virtual, of a launch that is timed: its lanes execute as one, and lane 0 keeps the clock
  int elected = 0;  // what elect.sync answers: any lane, always the same
  std::uint32_t runnable = 0;
  std::uint32_t live = kFullWarp;
  int queue_place = -1;  // in Machine::runnable_, -1 if no lane can run
  Collective collective;
  int registers = 0;         // a thread, as setmaxnreg left them
  Entity matrix_entity = 0;  // ldmatrix and stmatrix, which the warp executes as one
  Entity wgmma_entity = 0;
  Entity bulk_entity = 0;
  std::uint32_t matrix_time = 0;
  Clock joined = nullptr;  // what its lanes know together
  std::uint64_t joined_knowledge = 0;
  WarpTensorCore tensor_core;
  WaitQueue wgmma_waiters;

  Thread& thread(int lane) const;
};

struct Mbarrier {
  std::uint32_t offset = 0;
  std::uint32_t expected = 0;  // arrivals of a phase
  std::uint32_t pending = 0;   // arrivals still to come
  std::int64_t bytes = 0;      // still to come; negative if they were faster than the expectation
  std::uint32_t phase = 0;     // completed phases
  std::uint32_t loaded = 0;    // one more than the last phase that loads were issued for
  std::uint32_t observed = 0;  // completed phases that some thread has waited for
  Entity entity = 0;
  Clock arriving = nullptr;   // what the arrivals of this phase know
  Clock completed = nullptr;  // what a waiter learns
  Access init;
  WaitQueue waiters;
  bool init_fenced = false;
  struct Arrival {
    const Thread* thread;
  };
  std::vector<Arrival> arrivals;  // of this phase
};

struct NamedBarrierState {
  int threads = 0;  // of the open round; 0: none is open
  int arrived = 0;
  std::uint32_t round = 0;
  Clock arriving = nullptr;
  std::vector<Warp*> warps;    // that have arrived
  std::vector<Warp*> waiting;  // those of them that wait
  WaitQueue waiters;
};

struct Cluster {
  Cluster(int index, int threads, int warps, int mbarriers);

  int index = 0;
  int live = 0;  // threads
  ClockBank clocks;
  AccessLog log;
  FenceTable fences;
  int entities = 0;  // given out
  int entity_limit = 0;
  std::vector<std::pair<const Block*, std::uint32_t>> mbarrier_of_entity;  // from first_mbarrier on: block and offset
  int first_mbarrier = 0;
  std::vector<std::unique_ptr<Block>> blocks;

  // barrier.cluster
  int arrived = 0;
  std::uint32_t round = 0;
  Clock arriving = nullptr;
  std::vector<Warp*> waiting;
  WaitQueue waiters;
};

struct Block {
  Block(Cluster& owner, std::uint32_t shared_bytes) : cluster(&owner), shared(shared_bytes, owner.log, owner.fences) {}

  Cluster* cluster = nullptr;
  int index = 0;
  int rank = 0;
  int live = 0;
  SharedMemory shared;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrierState, kNamedBarriers> named;
  std::map<std::uint32_t, Mbarrier> mbarriers;  // by offset
  int pool = 0;                                 // registers that setmaxnreg.dec gave back and nobody took
  WaitQueue pool_waiters;
  OperandCache operands;
};

inline Thread& Warp::thread(int lane) const { return *block->threads[static_cast<std::size_t>(index * kWarpSize + lane)]; }

}  // namespace tandem::model
