// The frame of an operation of the vocabulary.
#pragma once

#include "machine/machine.hpp"

namespace tandem::model {

// The running thread, after everything that has to happen before an operation. Must stand in the function that the kernel calls: the return
// address is the kernel's.
#define TANDEM_ENTER(operation)       \
  Thread& thread = *current_thread;   \
  Machine& machine = *thread.machine; \
  machine.enter(thread, operation, __builtin_return_address(0))

// Offset of a pointer into the block's shared memory; a fault if [offset, offset + bytes) is not inside.
std::uint32_t shared_offset(Machine& machine, Thread& thread, const void* p, std::uint32_t bytes);

// The same for a 32-bit address of the shared window.
std::uint32_t shared_offset(Machine& machine, Thread& thread, std::uint32_t address, std::uint32_t bytes);

// Ordinary code touches a register (a word of the thread's stack).
void touch_registers(Machine& machine, Thread& thread, std::uintptr_t stack_offset, std::uint32_t bytes, bool write);

}  // namespace tandem::model
