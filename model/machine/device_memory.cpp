// Shared and global memory, as ordinary instructions reach it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "machine/device.hpp"
#include "machine/operation.hpp"
#include "machine/registers.hpp"

namespace tandem::model {

std::uint32_t shared_offset(Machine& machine, Thread& thread, const void* p, std::uint32_t bytes) {
  const SharedMemory& shared = thread.block->shared;
  const std::uintptr_t offset = shared.offset_of(p);
  if (offset >= shared.size() || offset + bytes > shared.size())
    machine.fail(Fault::shared_out_of_bounds, "shared memory", fmt::format("{} reaches outside the block's {} bytes", thread.operation, shared.size()),
                 &thread);
  return static_cast<std::uint32_t>(offset);
}

std::uint32_t shared_offset(Machine& machine, Thread& thread, std::uint32_t address, std::uint32_t bytes) {
  const std::uint32_t size = thread.block->shared.size();
  const std::uint32_t offset = address - kSharedWindowBase;
  if (offset >= size || offset + bytes > size)
    machine.fail(Fault::shared_out_of_bounds, "shared memory", fmt::format("{} reaches outside the block's {} bytes", thread.operation, size), &thread);
  return offset;
}

void touch_registers(Machine& machine, Thread& thread, std::uintptr_t stack_offset, std::uint32_t bytes, bool write) {
  RegisterShadow* const shadow = thread.fiber.stack().shadow();
  const std::uintptr_t last = (stack_offset + bytes - 1) / 4;
  for (std::uintptr_t word = stack_offset / 4; word <= last; ++word) {
    const RegisterShadow state = shadow[word];
    if ((state & kAccumulatorInFlight) != 0 || (write && (state & kOperandInFlight) != 0)) {
      const bool accumulator = (state & kAccumulatorInFlight) != 0;
      machine.fail(accumulator ? Fault::accumulator_in_flight : Fault::operand_in_flight, accumulator ? "accumulator" : "registers of operand A",
                   fmt::format("{} {} before the WGMMA that uses it was waited for", write ? "written" : "read",
                               accumulator ? "an accumulator register" : "a register of A"),
                   &thread);
    }
    shadow[word] = (state & kInFlight) | thread.epoch;
  }
}

namespace {

void fail_global(Machine& machine, Thread& thread, const GlobalMemory::Problem& problem) {
  machine.fail(problem.out_of_bounds ? Fault::global_out_of_bounds : Fault::global_overwrite, problem.object, problem.message, &thread);
}

void check_alignment(Machine& machine, Thread& thread, const void* p, int bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % static_cast<unsigned>(bytes) != 0)
    machine.fail(Fault::misaligned, "global memory", fmt::format("{} of {} bytes at an address that is no multiple of it", thread.operation, bytes), &thread);
}

// One lane's part of ldmatrix or stmatrix: the row that it points to, and its four registers.
struct MatrixLane {
  std::uint32_t offset;
  std::uint32_t* registers;
};

constexpr int kMatrices = 4;
constexpr int kMatrixRows = 8;

// A matrix takes one wavefront if its eight rows lie in different groups of four banks.
void count_wavefronts(Machine& machine, Thread& thread, const std::array<std::uint32_t, kMatrixRows>& rows) {
  std::array<int, 8> in_group{};
  int wavefronts = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::find(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i), rows[i]) != rows.begin() + static_cast<std::ptrdiff_t>(i)) continue;
    wavefronts = std::max(wavefronts, ++in_group[rows[i] / 16 % 8]);
  }
  machine.statistics.wavefronts += static_cast<unsigned>(wavefronts);
  machine.statistics.extra_wavefronts += static_cast<unsigned>(wavefronts - 1);
  if (wavefronts > 1)
    machine.fail(Fault::bank_conflict, machine.kernel.shared.name(rows[0]),
                 fmt::format("{} needs {} wavefronts for an 8 x 8 matrix, not 1", thread.operation, wavefronts), &thread);
}

// All lanes have come: `move(row of shared memory, matrix, row of the matrix)` for all rows, after the checks.
template <class Move>
void move_matrices(Machine& machine, Thread& last, std::array<void*, kWarpSize>& arguments, bool write, Move&& move) {
  Warp& warp = *last.warp;
  Block& block = *warp.block;
  const SharedLayout& layout = machine.kernel.shared;
  ++warp.matrix_time;
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    std::array<std::uint32_t, kMatrixRows> rows{};
    for (int row = 0; row < kMatrixRows; ++row) {
      const int lane = matrix * kMatrixRows + row;
      Thread& thread = warp.thread(lane);
      const std::uint32_t offset = static_cast<const MatrixLane*>(arguments[static_cast<std::size_t>(lane)])->offset;
      rows[static_cast<std::size_t>(row)] = offset;
      Access access;
      access.kind = write ? AccessKind::generic_write : AccessKind::generic_read;
      access.entity = warp.matrix_entity;
      access.time = warp.matrix_time;
      access.thread = thread.in_cluster;
      access.thread_time = thread.time();
      access.pc = thread.pc;
      const AccessId id = block.cluster->log.add(access);
      const SharedField* field = layout.find(offset);
      if (field != nullptr && field->kind == SharedField::Kind::barrier)
        machine.fail(Fault::barrier_misuse, field->name, fmt::format("{} touches an mbarrier", thread.operation), &thread);
      if (const Conflict conflict =
              write ? block.shared.shadow().write(offset, kUnitBytes, id, thread.clock) : block.shared.shadow().read(offset, kUnitBytes, id, thread.clock))
        machine.fail(conflict, block, access, thread.operation);
      move(block.shared.bytes() + offset, matrix, row);
    }
    count_wavefronts(machine, last, rows);
  }
  for (int lane = 0; lane < kWarpSize; ++lane) machine.learn(warp.thread(lane), warp.matrix_entity, warp.matrix_time);
}

std::uint32_t matrix_row(Machine& machine, Thread& thread, std::uint32_t address) {
  if (address % kUnitBytes != 0)
    machine.fail(Fault::misaligned, "shared memory", fmt::format("{}: a row must start at a multiple of 16 bytes", thread.operation), &thread);
  return shared_offset(machine, thread, address, kUnitBytes);
}

// The word of `row` that register i of lane l holds: row l / 4 of matrix i, word l % 4.
int lane_of(int row, int word) { return row * 4 + word; }

}  // namespace

namespace device {

int thread_index() { return current_thread->index; }
int block_index() { return current_thread->block->index; }
int grid_size() { return current_thread->machine->config.grid; }
int cluster_cta_rank() { return current_thread->block->rank; }

unsigned char* shared_base(std::size_t bytes, std::size_t alignment) {
  TANDEM_ENTER("shared_storage");
  const SharedMemory& shared = thread.block->shared;
  if (bytes > shared.size())
    machine.fail(Fault::shared_out_of_bounds, "shared memory", fmt::format("the storage has {} bytes, the launch gave {}", bytes, shared.size()), &thread);
  if (alignment > kSharedWindowBase) machine.fail(Fault::misaligned, "shared memory", "the storage wants more than 1024-byte alignment", &thread);
  return shared.bytes();
}

std::uint32_t shared_address(const void* p) {
  Thread& thread = *current_thread;
  thread.pc = __builtin_return_address(0);
  return shared_offset(*thread.machine, thread, p, 0) + kSharedWindowBase;
}

unsigned long long atomic_add_global(unsigned long long* address, unsigned long long value) {
  TANDEM_ENTER("atom.add.global");
  check_alignment(machine, thread, address, 8);
  if (const auto problem = machine.memory.check_write(address, 8, {thread.block->index, thread.index})) fail_global(machine, thread, *problem);
  const unsigned long long old = *address;
  *address = old + value;
  return old;
}

unsigned long long load_global_relaxed(const unsigned long long* address) {
  TANDEM_ENTER("ld.relaxed.global");
  check_alignment(machine, thread, address, 8);
  if (const auto problem = machine.memory.check_read(address, 8)) fail_global(machine, thread, *problem);
  return *address;
}

void store_global_relaxed(unsigned long long* address, unsigned long long value) {
  TANDEM_ENTER("st.relaxed.global");
  check_alignment(machine, thread, address, 8);
  if (const auto problem = machine.memory.check_write(address, 8, {thread.block->index, thread.index})) fail_global(machine, thread, *problem);
  *address = value;
}

void load_global(const void* source, void* value, int bytes) {
  TANDEM_ENTER("ld.global");
  check_alignment(machine, thread, source, bytes);
  if (const auto problem = machine.memory.check_read(source, bytes)) fail_global(machine, thread, *problem);
  std::memcpy(value, source, static_cast<std::size_t>(bytes));
}

void store_global(void* destination, const void* value, int bytes) {
  TANDEM_ENTER("st.global");
  check_alignment(machine, thread, destination, bytes);
  if (const auto problem = machine.memory.check_write(destination, bytes, {thread.block->index, thread.index})) fail_global(machine, thread, *problem);
  std::memcpy(destination, value, static_cast<std::size_t>(bytes));
}

void ldmatrix_x4(std::uint32_t* registers, std::uint32_t row_address) {
  TANDEM_ENTER("ldmatrix");
  touch_registers(machine, thread, reinterpret_cast<std::uintptr_t>(registers) - thread.fiber.stack().low(), 16, true);
  MatrixLane lane{matrix_row(machine, thread, row_address), registers};
  machine.converge(thread, &lane, [&](auto& arguments) {
    move_matrices(machine, thread, arguments, false, [&](const unsigned char* bytes, int matrix, int row) {
      for (int word = 0; word < 4; ++word)
        std::memcpy(static_cast<MatrixLane*>(arguments[static_cast<std::size_t>(lane_of(row, word))])->registers + matrix, bytes + 4 * word, 4);
    });
  });
}

void stmatrix_x4(std::uint32_t row_address, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2, std::uint32_t r3) {
  TANDEM_ENTER("stmatrix");
  std::uint32_t registers[4] = {r0, r1, r2, r3};
  MatrixLane lane{matrix_row(machine, thread, row_address), registers};
  machine.converge(thread, &lane, [&](auto& arguments) {
    move_matrices(machine, thread, arguments, true, [&](unsigned char* bytes, int matrix, int row) {
      for (int word = 0; word < 4; ++word)
        std::memcpy(bytes + 4 * word, static_cast<MatrixLane*>(arguments[static_cast<std::size_t>(lane_of(row, word))])->registers + matrix, 4);
    });
  });
}

void fence_mbarrier_init() {
  TANDEM_ENTER("fence.mbarrier_init");
  thread.init_fences.push_back(thread.time());
  ++thread.clock[thread.in_cluster];
  ++thread.knowledge;
}

void fence_proxy_async_shared() {
  TANDEM_ENTER("fence.proxy.async");
  thread.block->cluster->fences.add(thread.in_cluster, thread.time());
  ++thread.clock[thread.in_cluster];
  ++thread.knowledge;
}

}  // namespace device
}  // namespace tandem::model
