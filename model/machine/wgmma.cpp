#include "machine/wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "machine/machine.hpp"
#include "machine/registers.hpp"
#include "machine/wgmma_math.hpp"

namespace tandem::model {
namespace {

constexpr int kRows = 16;
constexpr int kK = 16;
constexpr int kWarpsOfGroup = 4;

RegisterShadow* shadow_of(const Machine& machine, const Thread& thread, const void* registers, int words) {
  (void)machine;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(registers) - thread.fiber.stack().low();
  if (offset >= kStackBytes || offset % 4 != 0 || offset + static_cast<std::uintptr_t>(words) * 4 > kStackBytes) return nullptr;
  return thread.fiber.stack().shadow() + offset / 4;
}

std::string name_of_accumulator(int n) { return fmt::format("accumulator of {} registers", n / 2); }

[[noreturn]] void fail_at(Machine& machine, Thread& thread, const WgmmaInstruction& instruction, Fault fault, std::string object, std::string message) {
  thread.pc = instruction.pc;
  machine.fail(fault, std::move(object), std::move(message), &thread);
}

// The registers of one lane that an instruction uses for the first time since they were last in order.
void claim(Machine& machine, Thread& thread, const WgmmaInstruction& instruction, const void* registers, int words, RegisterShadow in_flight,
           const std::string& object) {
  RegisterShadow* const shadow = shadow_of(machine, thread, registers, words);
  if (shadow == nullptr) fail_at(machine, thread, instruction, Fault::descriptor, object, "its registers are no local variables of the thread");
  for (int i = 0; i < words; ++i) {
    if ((shadow[i] & kAccumulatorInFlight) != 0 || (in_flight == kAccumulatorInFlight && (shadow[i] & kOperandInFlight) != 0))
      fail_at(machine, thread, instruction, Fault::accumulator_in_flight, object, "a WGMMA takes registers that another WGMMA still uses");
    if ((shadow[i] & kEpochMask) == thread.epoch)
      fail_at(machine, thread, instruction, Fault::missing_wgmma_fence, object,
              fmt::format("register {} was touched by ordinary code and no wgmma.fence came between", i));
    shadow[i] |= in_flight;
  }
}

void unclaim(const Machine& machine, const Thread& thread, const void* registers, int words, RegisterShadow in_flight) {
  RegisterShadow* const shadow = shadow_of(machine, thread, registers, words);
  for (int i = 0; i < words; ++i) shadow[i] &= ~in_flight;
}

// Where register `i` of `lane` stands in the warp's 16 x n part of D.
int place(int lane, int i, int n) { return (lane / 4 + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + 2 * (lane % 4) + i % 2; }

AccumulatorInFlight& take_accumulator(Machine& machine, Warp& warp, const std::array<const WgmmaInstruction*, kWarpSize>& lanes) {
  WarpTensorCore& core = warp.tensor_core;
  const WgmmaInstruction& first = *lanes[0];
  const int registers = first.n / 2;
  for (const auto& accumulator : core.accumulators) {
    if (accumulator->lanes[0] != first.d) continue;
    for (std::size_t lane = 0; lane < kWarpSize; ++lane)
      if (accumulator->lanes[lane] != lanes[lane]->d || accumulator->n != first.n)
        fail_at(machine, warp.thread(static_cast<int>(lane)), first, Fault::accumulator_in_flight, name_of_accumulator(first.n),
                "a WGMMA of another shape takes it while it is in flight");
    return *accumulator;
  }
  auto accumulator = std::make_unique<AccumulatorInFlight>();
  accumulator->n = first.n;
  accumulator->values.assign(static_cast<std::size_t>(kRows * first.n), 0.0f);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    float* const d = lanes[static_cast<std::size_t>(lane)]->d;
    accumulator->lanes[static_cast<std::size_t>(lane)] = d;
    claim(machine, warp.thread(lane), first, d, registers, kAccumulatorInFlight, name_of_accumulator(first.n));
    for (int i = 0; i < registers; ++i) {
      accumulator->values[static_cast<std::size_t>(place(lane, i, first.n))] = d[i];
      std::memcpy(d + i, &kPoison, sizeof kPoison);
    }
  }
  core.accumulators.push_back(std::move(accumulator));
  return *core.accumulators.back();
}

// The fragment of A as a 16 x 16 matrix.
void read_a_registers(WgmmaInFlight& flight, OperandType type) {
  std::uint16_t raw[kRows * kK];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    for (int word = 0; word < 4; ++word) {
      const std::uint32_t pair = flight.a_lanes[static_cast<std::size_t>(lane)][word];
      std::uint16_t* const at = raw + (lane / 4 + 8 * (word % 2)) * kK + 8 * (word / 2) + 2 * (lane % 4);
      at[0] = static_cast<std::uint16_t>(pair);
      at[1] = static_cast<std::uint16_t>(pair >> 16);
    }
  }
  flight.a_values.resize(kRows * kK);
  widen(flight.a_values.data(), raw, kRows * kK, type);
}

const OperandUnits& take_operand(Machine& machine, Warp& warp, const WgmmaInstruction& instruction, char name, AccessId access) {
  Block& block = *warp.block;
  const bool is_a = name == 'A';
  const std::uint64_t descriptor = is_a ? instruction.a_descriptor : instruction.b_descriptor;
  const OperandUnits& operand = block.operands.get(descriptor, is_a ? Contiguous::k : instruction.b_contiguous, is_a ? 64 : instruction.n, block.shared.size());
  Thread& actor = warp.thread(0);
  actor.pc = instruction.pc;
  if (operand.broken) machine.fail(Fault::descriptor, fmt::format("operand {}", name), *operand.broken, &actor);

  // All of A, not the warp's 16 rows alone: nothing says which warp fetches which row.
  const SharedLayout& layout = machine.kernel.shared;
  const std::span<const std::uint16_t> units(operand.units);
  if (const SharedField* field = layout.find(units.front() * kUnitBytes)) {
    for (const std::uint16_t unit : units)
      if (unit * kUnitBytes < field->offset || unit * kUnitBytes >= field->end())
        machine.fail(Fault::shared_out_of_bounds, field->name, fmt::format("operand {} of a WGMMA runs over into {}", name, layout.describe(unit * kUnitBytes)),
                     &actor);
  }
  if (const Conflict conflict = block.shared.shadow().read_units(units, access, machine.joined(warp)))
    machine.fail(conflict, block, block.cluster->log[access], fmt::format("WGMMA operand {}", name));
  return operand;
}

void check_places(Machine& machine, Warp& warp, const WgmmaInFlight& flight) {
  const WgmmaInstruction& instruction = flight.instruction;
  const SharedLayout& layout = machine.kernel.shared;
  std::optional<OperandPlace> a, b;
  const auto fail = [&](char name, const OperandUnits& operand, const std::string& message) {
    fail_at(machine, warp.thread(0), instruction, Fault::operand_layout, layout.name(operand.units.front() * kUnitBytes),
            fmt::format("operand {} is no part of the tile that was loaded: {}", name, message));
  };
  if (flight.a_units != nullptr)
    if (const auto wrong = check_layout(*warp.block, *flight.a_units, warp.index % kWarpsOfGroup * kRows, kRows, a)) fail('A', *flight.a_units, *wrong);
  // All warps read the same B.
  if (warp.index % kWarpsOfGroup == 0)
    if (const auto wrong = check_layout(*warp.block, *flight.b_units, 0, flight.b_units->lines, b)) fail('B', *flight.b_units, *wrong);
  if (a && b && flight.b_units->contiguous == Contiguous::k && a->coordinate[0] != b->coordinate[0])
    fail('B', *flight.b_units, fmt::format("A gives columns from {} and B from {} to the same k", a->coordinate[0], b->coordinate[0]));
}

void issue(Machine& machine, Warp& warp, const std::array<const WgmmaInstruction*, kWarpSize>& lanes) {
  WarpTensorCore& core = warp.tensor_core;
  const WgmmaInstruction& first = *lanes[0];
  for (int lane = 1; lane < kWarpSize; ++lane)
    if (!lanes[static_cast<std::size_t>(lane)]->same_as(first))
      fail_at(machine, warp.thread(lane), first, Fault::diverged_warp, "wgmma", "lanes of the warp differ in shape, descriptors or the accumulate flag");

  WgmmaInFlight flight;
  flight.instruction = first;
  flight.accumulator = &take_accumulator(machine, warp, lanes);

  Access access;
  access.kind = AccessKind::wgmma_read;
  access.entity = warp.wgmma_entity;
  access.time = core.issued + 1;
  access.thread = warp.thread(0).in_cluster;
  access.pc = first.pc;
  const AccessId id = warp.block->cluster->log.add(access);
  if (first.a_in_registers) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const std::uint32_t* const registers = lanes[static_cast<std::size_t>(lane)]->a_registers;
      flight.a_lanes[static_cast<std::size_t>(lane)] = registers;
      claim(machine, warp.thread(lane), first, registers, 4, kOperandInFlight, "registers of operand A");
    }
    read_a_registers(flight, first.type);
  } else {
    flight.a_units = &take_operand(machine, warp, first, 'A', id);
  }
  flight.b_units = &take_operand(machine, warp, first, 'B', id);
  check_places(machine, warp, flight);

  flight.accumulator->last = ++core.issued;
  core.flight.push_back(std::move(flight));
  ++machine.statistics.wgmmas;
}

std::string describe_place(const Thread&) { return "a place in the queue of the tensor core"; }

// In virtual time the warp stands in its issue slot until the tensor core takes one more.
void wait_for_place(Machine& machine, Thread& thread) {
  Warp& warp = *thread.warp;
  machine.wait(warp.wgmma_waiters, thread, describe_place, &warp, 0, [&] { return warp.tensor_core.issued - warp.tensor_core.executed < kWgmmaQueue; });
}

}  // namespace

void issue_wgmmas(Machine& machine, Thread& last) {
  Warp& warp = *last.warp;
  const std::size_t count = warp.thread(0).unissued.size();
  for (int lane = 1; lane < kWarpSize; ++lane)
    if (warp.thread(lane).unissued.size() != count)
      machine.fail(Fault::diverged_warp, "wgmma",
                   fmt::format("lane 0 issues {} instructions, lane {} issues {}", count, lane, warp.thread(lane).unissued.size()), &warp.thread(lane));
  const bool was_idle = warp.tensor_core.executed == warp.tensor_core.issued;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<const WgmmaInstruction*, kWarpSize> lanes{};
    for (int lane = 0; lane < kWarpSize; ++lane) lanes[static_cast<std::size_t>(lane)] = &warp.thread(lane).unissued[i];
    if (machine.timing) wait_for_place(machine, last);
    issue(machine, warp, lanes);
    if (machine.timing) machine.timing->enqueue(warp, *lanes[0]);
  }
  for (int lane = 0; lane < kWarpSize; ++lane) warp.thread(lane).unissued.clear();
  if (was_idle && count > 0 && !machine.timing) machine.started_wgmma(warp);
}

void execute_wgmma(Machine& machine, Warp& warp) {
  WarpTensorCore& core = warp.tensor_core;
  WgmmaInFlight& flight = core.flight[core.executed - core.retired];
  const WgmmaInstruction& instruction = flight.instruction;
  const unsigned char* const shared = warp.block->shared.bytes();
  alignas(64) float b[kK * 256];
  alignas(64) float a[kRows * kK];
  gather_b(b, shared, *flight.b_units, instruction.type);
  if (flight.a_units != nullptr)
    gather_a(a, shared, *flight.a_units, warp.index % kWarpsOfGroup * kRows, instruction.type);
  else
    std::copy(flight.a_values.begin(), flight.a_values.end(), a);
  std::vector<float>& d = flight.accumulator->values;
  if (!instruction.accumulate) std::fill(d.begin(), d.end(), 0.0f);
  multiply_accumulate(d.data(), a, b, instruction.n);
  ++core.executed;
  machine.wake(warp.wgmma_waiters);
}

std::uint32_t wgmma_target(const WarpTensorCore& core, std::uint32_t groups) {
  return core.commits.size() > groups ? core.commits[core.commits.size() - 1 - groups] : 0;
}

void retire_wgmmas(Machine& machine, Warp& warp, std::uint32_t target) {
  WarpTensorCore& core = warp.tensor_core;
  while (core.retired < target) {
    const WgmmaInFlight& flight = core.flight.front();
    if (flight.instruction.a_in_registers)
      for (int lane = 0; lane < kWarpSize; ++lane) unclaim(machine, warp.thread(lane), flight.a_lanes[static_cast<std::size_t>(lane)], 4, kOperandInFlight);
    core.flight.pop_front();
    ++core.retired;
  }
  // Registers of A that a younger instruction uses too.
  for (const WgmmaInFlight& flight : core.flight)
    if (flight.instruction.a_in_registers)
      for (int lane = 0; lane < kWarpSize; ++lane) {
        RegisterShadow* const shadow = shadow_of(machine, warp.thread(lane), flight.a_lanes[static_cast<std::size_t>(lane)], 4);
        for (int i = 0; i < 4; ++i) shadow[i] |= kOperandInFlight;
      }
  std::erase_if(core.accumulators, [&](const std::unique_ptr<AccumulatorInFlight>& accumulator) {
    if (accumulator->last > core.retired) return false;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      float* const d = accumulator->lanes[static_cast<std::size_t>(lane)];
      unclaim(machine, warp.thread(lane), d, accumulator->n / 2, kAccumulatorInFlight);
      for (int i = 0; i < accumulator->n / 2; ++i) d[i] = accumulator->values[static_cast<std::size_t>(place(lane, i, accumulator->n))];
    }
    return true;
  });
  for (int lane = 0; lane < kWarpSize; ++lane) machine.learn(warp.thread(lane), warp.wgmma_entity, core.retired);
}

}  // namespace tandem::model
