#include "machine/timing.hpp"

#include <algorithm>
#include <iterator>

#include "machine/block.hpp"
#include "machine/copy.hpp"

namespace tandem::model {
namespace {

// ---- the cycle table

struct OperationCycles {
  std::string_view operation;
  Cycle cycles;
};

// Latencies where the next instruction needs the answer, else issue slots. Guesses of the usual size, but for what Arithmetic says.
constexpr OperationCycles kOperations[] = {
    {"shfl", 5},
    {"vote", 12},
    {"elect", 2},
    {"bar.warp.sync", 6},
    {"bar.sync", 20},
    {"bar.arrive", 6},
    {"barrier.cluster", 100},
    {"mbarrier.init", 4},
    {"mbarrier.wait", 16},
    {"mbarrier.arrive", 6},
    {"mbarrier.arrive.expect_tx", 6},
    {"wgmma.fence", 4},
    {"wgmma.commit_group", 2},
    {"wgmma.wait_group", 8},
    {"ldmatrix", 8},
    {"stmatrix", 8},
    {"cp.async.bulk.tensor (load)", 10},
    {"cp.async.bulk.tensor (store)", 10},
    {"fence.proxy.async", 20},
    {"atom.add.global", 6},
    {"setmaxnreg.inc", 20},
    {"setmaxnreg.dec", 20},
};

// Of a warp instruction: slots of the warp; cycles that its unit is taken for, alone and while the tensor core runs; what it takes from the
// tensor core then. Measured on an H200 (docs/MODEL.md).
struct ArithmeticCycles {
  Cycle issue, alone, beside, stolen;
};
constexpr ArithmeticCycles kElement{3, 9.1, 13.1, 2 * 0.86 + 0.4};  // FFMA, EX2, FADD
constexpr ArithmeticCycles kAlu{1, 2.1, 3.8, 0.3};                  // FMNMX, F2FP
constexpr ArithmeticCycles kScalar{5, 0, 0, 0.86};                  // FMUL or FADD of a chain: the next instruction waits for it
constexpr ArithmeticCycles kReduction{20, 0, 0, 0};                 // the rest of the latency of a shuffle that is waited for

// An L2 hit, and what the cache gives a multiprocessor while all others ask too.
constexpr Cycle kLoadLatency = 700;
constexpr Cycle kLoadBytesPerCycle = 38;
constexpr Cycle kStoreReadLatency = 300, kStoreWriteLatency = 500;
// Shared memory gives a WGMMA this much a cycle.
constexpr Cycle kSharedBytesPerCycle = 128;

}  // namespace

Cycle cycles_of(std::string_view operation) {
  for (const OperationCycles& entry : kOperations)
    if (entry.operation == operation) return entry.cycles;
  return 0;
}

Timing::Partition& Timing::partition_of(const Warp& warp) { return partitions_[static_cast<std::size_t>(warp.index) % partitions_.size()]; }

std::size_t Timing::next_partition() const {
  const auto first = std::min_element(partitions_.begin(), partitions_.end(), [](const Partition& a, const Partition& b) { return a.end < b.end; });
  return static_cast<std::size_t>(std::distance(partitions_.begin(), first));
}

void Timing::execute(Warp& warp, device::Arithmetic kind) {
  Partition& partition = partition_of(warp);
  const bool multiplying = !partition.queue.empty();
  const auto charge = [&](const ArithmeticCycles& cost, Cycle& unit_free) {
    const Cycle begin = std::max(warp.time, unit_free);
    unit_free = begin + (multiplying ? cost.beside : cost.alone);
    warp.time = begin + cost.issue;
    if (multiplying) partition.end += cost.stolen;
  };
  Cycle own = 0;  // no unit that others would wait for
  switch (kind) {
    case device::Arithmetic::element: return charge(kElement, partition.exp_free);
    case device::Arithmetic::alu: return charge(kAlu, partition.alu_free);
    case device::Arithmetic::scalar: return charge(kScalar, own);
    case device::Arithmetic::reduction: return charge(kReduction, own);
  }
}

void Timing::enqueue(Warp& warp, const WgmmaInstruction& instruction) {
  constexpr Cycle kIssue = 4;
  constexpr Cycle kRows = 64, kK = 16, kElementBytes = 2;
  // All four quarters read their own rows of A and share B.
  const Cycle operand_bytes = ((instruction.a_in_registers ? 0 : kRows) + instruction.n) * kK * kElementBytes;
  Partition& partition = partition_of(warp);
  warp.time += kIssue;
  partition.queue.push_back({&warp, std::max(instruction.n / 2.0, operand_bytes / kSharedBytesPerCycle)});
  if (partition.queue.size() == 1) partition.end = warp.time + partition.queue.front().cycles;
}

Warp& Timing::finish_multiplied() {
  Partition& partition = partitions_[next_partition()];
  Warp& warp = *partition.queue.front().warp;
  now = partition.end;
  partition.queue.pop_front();
  partition.end = partition.queue.empty() ? kNever : now + partition.queue.front().cycles;
  return warp;
}

Cycle Timing::arrival(const Copy& copy) {
  if (!copy.load) return now + (copy.next_row == 0 ? kStoreReadLatency : kStoreWriteLatency);
  copy_free_ = std::max(copy_free_, now) + copy.map.bytes() / kLoadBytesPerCycle;
  return copy_free_ + kLoadLatency;
}

}  // namespace tandem::model
