// Operations that start asynchronous work, and those that wait for it.
#include <fmt/format.h>

#include <algorithm>

#include "machine/device.hpp"
#include "machine/mbarrier.hpp"
#include "machine/operation.hpp"
#include "machine/registers.hpp"

namespace tandem::model {
namespace {

std::string describe_wgmma_wait(const Thread& thread) { return fmt::format("WGMMA {}", thread.waiting_detail); }
std::string describe_bulk_wait(const Thread&) { return "TMA stores to read their source"; }

DecodedMap decode_map(Machine& machine, Thread& thread, const TensorMap& map, int rank) {
  const auto decoded = decode(map);
  if (!decoded) machine.fail(Fault::descriptor, "tensor map", fmt::format("{} takes something that is no tensor map", thread.operation), &thread);
  if (const auto broken = broken_rule(*decoded)) machine.fail(Fault::descriptor, machine.describe_map(&map), *broken, &thread);
  if (decoded->rank != rank)
    machine.fail(Fault::descriptor, machine.describe_map(&map), fmt::format("{} coordinates for a map of rank {}", rank, decoded->rank), &thread);
  return *decoded;
}

std::string name_box(const Machine& machine, const Copy& copy) {
  return fmt::format("TMA {} of {} at ({})", copy.load ? "load" : "store", machine.describe_map(copy.map_address),
                     fmt::join(copy.coordinate.begin(), copy.coordinate.begin() + copy.map.rank, ", "));
}

// Where the box lies in shared memory: aligned, inside, and inside one buffer.
std::uint32_t place_box(Machine& machine, Thread& thread, const void* p, const Copy& copy) {
  const std::uint32_t bytes = copy.map.shared_bytes();
  const std::uint32_t offset = shared_offset(machine, thread, p, bytes);
  const SharedLayout& layout = machine.kernel.shared;
  if (offset % kTmaSharedAlignment != 0) machine.fail(Fault::misaligned, layout.describe(offset), "a box must start at a multiple of 128 bytes", &thread);
  const SharedField* field = layout.find(offset);
  if (field != nullptr && offset + bytes > field->end())
    machine.fail(Fault::shared_out_of_bounds, field->name, fmt::format("{} runs over into {}", name_box(machine, copy), layout.describe(field->end())),
                 &thread);
  return offset;
}

Copy make_copy(Machine& machine, Thread& thread, bool load, const TensorMap& map, const int* coordinates, int rank) {
  Copy copy;
  copy.load = load;
  copy.block = thread.block;
  copy.issuer = &thread;
  copy.map = decode_map(machine, thread, map, rank);
  copy.map_address = &map;
  std::copy_n(coordinates, rank, copy.coordinate.begin());
  return copy;
}

}  // namespace

namespace device {

void tma_load(void* destination, const TensorMap& map, void* barrier, const int* coordinates, int rank, std::uint32_t cta_mask) {
  TANDEM_ENTER("cp.async.bulk.tensor (load)");
  Copy copy = make_copy(machine, thread, true, map, coordinates, rank);
  copy.offset = place_box(machine, thread, destination, copy);
  copy.barrier = shared_offset(machine, thread, barrier, 8);
  Cluster& cluster = *thread.block->cluster;
  const std::uint32_t targets = cta_mask == 0 ? 1u << thread.block->rank : cta_mask;
  if (targets >> cluster.blocks.size() != 0)
    machine.fail(Fault::descriptor, "multicast", fmt::format("CTA mask {:#x} in a cluster of {}", cta_mask, cluster.blocks.size()), &thread);
  for (const auto& target : cluster.blocks) {
    if ((targets >> target->rank & 1) == 0) continue;
    if (target->live == 0)
      machine.fail(Fault::unfinished_work, machine.kernel.shared.name(copy.offset),
                   fmt::format("a load into block rank {}, which has left the kernel", target->rank), &thread);
    Mbarrier& at = find_mbarrier(machine, *target, copy.barrier, thread, true);
    copy.block = target.get();
    copy.phase = at.phase;
    at.loaded = std::max(at.loaded, at.phase + 1);

    TileOrigin origin;
    origin.map = &map;
    origin.tensor = copy.map.base;
    origin.base = copy.offset;
    origin.row_bytes = copy.map.shared_row_bytes();
    origin.swizzle = copy.map.swizzle;
    std::copy(copy.coordinate.begin(), copy.coordinate.end(), std::begin(origin.coordinate));
    for (std::size_t axis = 0; axis < kMaxRank; ++axis) origin.box[axis] = axis < static_cast<std::size_t>(rank) ? copy.map.box[axis] : 1;
    Access access;
    access.kind = AccessKind::load_write;
    access.entity = at.entity;
    access.time = at.phase + 1;  // ordered for whoever has waited for this phase
    access.thread = thread.in_cluster;
    access.pc = thread.pc;
    access.origin = cluster.log.add_origin(origin);
    const AccessId id = cluster.log.add(access);
    for_pieces_written(copy, [&](std::uint32_t offset, std::uint32_t bytes) {
      if (const Conflict conflict = target->shared.shadow().write(offset, bytes, id, thread.clock))
        machine.fail(conflict, *target, access, name_box(machine, copy));
    });
    machine.start(std::make_unique<Copy>(copy));
  }
}

void tma_store(const TensorMap& map, const void* source, const int* coordinates, int rank) {
  TANDEM_ENTER("cp.async.bulk.tensor (store)");
  Copy copy = make_copy(machine, thread, false, map, coordinates, rank);
  // A load may; such a store is what stopped an H200 with an illegal instruction (docs/worklog.md).
  if (std::any_of(coordinates, coordinates + rank, [](int coordinate) { return coordinate < 0; }))
    machine.fail(Fault::descriptor, machine.describe_map(&map), fmt::format("{} begins before the tensor", name_box(machine, copy)), &thread);
  copy.offset = place_box(machine, thread, source, copy);
  copy.group = thread.bulk.size() - 1;
  BulkGroup& group = thread.bulk.back();
  ++group.stores;
  ++group.unread;
  Block& block = *thread.block;
  Access access;
  access.kind = AccessKind::store_read;
  access.entity = thread.warp->bulk_entity;
  access.time = static_cast<std::uint32_t>(thread.bulk.size());
  access.thread = thread.in_cluster;
  access.pc = thread.pc;
  const AccessId id = block.cluster->log.add(access);
  for_pieces_inside(copy, [&](std::uint32_t offset, std::uint32_t bytes) {
    if (const Conflict conflict = block.shared.shadow().read(offset, bytes, id, thread.clock)) machine.fail(conflict, block, access, name_box(machine, copy));
  });
  machine.start(std::make_unique<Copy>(std::move(copy)));
}

void tma_store_commit() {
  TANDEM_ENTER("cp.async.bulk.commit_group");
  thread.bulk.emplace_back();
}

void tma_store_wait_read(int groups) {
  TANDEM_ENTER("cp.async.bulk.wait_group.read");
  const std::size_t committed = thread.bulk.size() - 1;
  const std::size_t target = committed > static_cast<std::size_t>(groups) ? committed - static_cast<std::size_t>(groups) : 0;
  machine.wait(thread.bulk_waiters, thread, describe_bulk_wait, nullptr, 0, [&] {
    for (std::size_t i = thread.bulk_waited; i < target; ++i)
      if (thread.bulk[i].unread > 0) return false;
    return true;
  });
  thread.bulk_waited = std::max(thread.bulk_waited, target);
  machine.learn(thread, thread.warp->bulk_entity, static_cast<std::uint32_t>(target));
}

void tma_prefetch_descriptor(const TensorMap& map) {
  TANDEM_ENTER("prefetch.tensormap");
  if (!decode(map)) machine.fail(Fault::descriptor, "tensor map", "prefetches something that is no tensor map", &thread);
}

void wgmma_fence() {
  TANDEM_ENTER("wgmma.fence");
  machine.converge(thread, nullptr, [&](auto&) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      Thread& other = thread.warp->thread(lane);
      other.fiber.stack().last_epoch = ++other.epoch;
    }
  });
}

void wgmma_commit_group() {
  TANDEM_ENTER("wgmma.commit_group");
  machine.converge(thread, nullptr, [&](auto&) {
    WarpTensorCore& core = thread.warp->tensor_core;
    core.commits.push_back(core.issued);
  });
}

void wgmma_wait_group(int groups) {
  TANDEM_ENTER("wgmma.wait_group");
  machine.converge(thread, nullptr, [&](auto&) {
    Warp& warp = *thread.warp;
    const std::uint32_t target = wgmma_target(warp.tensor_core, static_cast<std::uint32_t>(groups));
    machine.wait(warp.wgmma_waiters, thread, describe_wgmma_wait, &warp, target, [&] { return warp.tensor_core.executed >= target; });
    retire_wgmmas(machine, warp, target);
  });
}

void wgmma_settle(const float* d, int count) {
  TANDEM_ENTER("wgmma_settle");
  const RegisterShadow* const shadow = thread.fiber.stack().shadow() + (reinterpret_cast<std::uintptr_t>(d) - thread.fiber.stack().low()) / 4;
  for (int i = 0; i < count; ++i)
    if ((shadow[i] & kAccumulatorInFlight) != 0)
      machine.fail(Fault::accumulator_in_flight, fmt::format("accumulator of {} registers", count),
                   "taken as settled, while a WGMMA that no wait covers still adds to it", &thread);
}

namespace {

WgmmaInstruction make_instruction(WgmmaShape shape, float* d, std::uint64_t b_descriptor, bool accumulate, const void* pc) {
  WgmmaInstruction instruction;
  instruction.type = static_cast<OperandType>(shape.type);
  instruction.n = shape.n;
  instruction.b_contiguous = shape.b_n_contiguous != 0 ? Contiguous::other : Contiguous::k;
  instruction.accumulate = accumulate;
  instruction.b_descriptor = b_descriptor;
  instruction.d = d;
  instruction.pc = pc;
  return instruction;
}

}  // namespace

unsigned long long clock_cycles() {
  TANDEM_ENTER("clock");
  return machine.timing ? static_cast<unsigned long long>(thread.warp->time) : 0;
}

void count(Arithmetic kind) {
  Thread& thread = *current_thread;
  Machine& machine = *thread.machine;
  if (!machine.timing || thread.lane != 0) return;
  thread.pc = __builtin_return_address(0);
  machine.give_way(thread);
  machine.timing->execute(*thread.warp, kind);
}

// The warp issues when its last lane has come to the next operation that is no WGMMA: enter() does it.
void wgmma_ss(WgmmaShape shape, float* d, std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool accumulate) {
  WgmmaInstruction instruction = make_instruction(shape, d, b_descriptor, accumulate, __builtin_return_address(0));
  instruction.a_descriptor = a_descriptor;
  current_thread->unissued.push_back(instruction);
}

void wgmma_rs(WgmmaShape shape, float* d, const std::uint32_t* a, std::uint64_t b_descriptor, bool accumulate) {
  WgmmaInstruction instruction = make_instruction(shape, d, b_descriptor, accumulate, __builtin_return_address(0));
  instruction.a_in_registers = true;
  instruction.a_registers = a;
  current_thread->unissued.push_back(instruction);
}

}  // namespace device
}  // namespace tandem::model
