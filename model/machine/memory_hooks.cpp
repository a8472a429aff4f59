// Kernels are compiled with -fsanitize=thread, which calls a function before every access to memory that may be shared. The functions here
// take the place of ThreadSanitizer's runtime: they see each ordinary access to shared memory, to a register that a WGMMA uses, and every
// stray pointer. Nothing else in the library is compiled that way.
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <vector>

#include "machine/operation.hpp"
#include "machine/registers.hpp"

namespace tandem::model {
namespace {

// Constants of the program: segments that are mapped and not writable.
bool is_constant(const void* p) {
  struct Range {
    std::uintptr_t begin, end;
  };
  static const std::vector<Range> ranges = [] {
    std::vector<Range> found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& segment = info->dlpi_phdr[i];
            if ((segment.p_type != PT_LOAD && segment.p_type != PT_GNU_RELRO) || (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)) continue;
            const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
            static_cast<std::vector<Range>*>(out)->push_back({begin, begin + segment.p_memsz});
          }
          return 0;
        },
        &found);
    return found;
  }();
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  for (const Range& range : ranges)
    if (address >= range.begin && address < range.end) return true;
  return false;
}

void access_shared(Machine& machine, Thread& thread, std::uint32_t offset, std::uint32_t bytes, bool write) {
  Block& block = *thread.block;
  const SharedField* field = machine.kernel.shared.find(offset);
  if (field != nullptr && field->kind == SharedField::Kind::barrier)
    machine.fail(Fault::barrier_misuse, field->name, "ordinary code touches an mbarrier", &thread);
  Access access;
  access.kind = write ? AccessKind::generic_write : AccessKind::generic_read;
  access.entity = static_cast<Entity>(thread.in_cluster);
  access.time = access.thread_time = thread.time();
  access.thread = thread.in_cluster;
  access.pc = thread.pc;
  const AccessId id = block.cluster->log.add(access);
  Shadow& shadow = block.shared.shadow();
  if (const Conflict conflict = write ? shadow.write(offset, bytes, id, thread.clock) : shadow.read(offset, bytes, id, thread.clock))
    machine.fail(conflict, block, access, write ? "an ordinary write" : "an ordinary read");
  if (!write && field != nullptr && field->kind == SharedField::Kind::tile) {
    thread.tile = field;
    std::memcpy(thread.tile_bytes.data(), block.shared.bytes() + field->offset, std::min<std::size_t>(field->bytes, thread.tile_bytes.size()));
  }
}

// Outside the stack: shared memory, parameters, constants, global memory; or nothing that a kernel may touch.
void check_elsewhere(Machine& machine, Thread& thread, void* p, std::uint32_t bytes, bool write) {
  const SharedMemory& shared = thread.block->shared;
  if (shared.contains(p)) return access_shared(machine, thread, shared_offset(machine, thread, p, bytes), bytes, write);
  const auto params = reinterpret_cast<std::uintptr_t>(machine.config.params);
  if (!write && reinterpret_cast<std::uintptr_t>(p) - params < machine.config.params_bytes) return;
  if (!write && is_constant(p)) return;
  auto problem = write ? machine.memory.check_write(p, bytes, {thread.block->index, thread.index}) : machine.memory.check_read(p, bytes);
  if (problem)
    machine.fail(problem->out_of_bounds ? Fault::global_out_of_bounds : Fault::global_overwrite, std::move(problem->object), std::move(problem->message),
                 &thread);
}

// No exception may pass through an instrumented access. A thread that found a fault stays here: the launch ends without it.
template <class Check>
void park_on_fault(Thread& thread, Check&& check) {
  bool stopped = false;
  try {
    check();
  } catch (const Stopped&) {
    stopped = true;
  }
  while (stopped) thread.fiber.suspend();
}

[[gnu::noinline]] void access_elsewhere(Thread& thread, void* p, std::uint32_t bytes, bool write, const void* pc) {
  park_on_fault(thread, [&] {
    thread.machine->enter(thread, write ? "st" : "ld", pc);
    check_elsewhere(*thread.machine, thread, p, bytes, write);
  });
}

[[gnu::noinline]] void access_registers(Thread& thread, std::uintptr_t offset, std::uint32_t bytes, bool write, const void* pc) {
  park_on_fault(thread, [&] {
    thread.pc = pc;
    touch_registers(*thread.machine, thread, offset, bytes, write);
  });
}

inline void access(void* p, std::uint32_t bytes, bool write, const void* pc) {
  Thread* const thread = current_thread;
  if (thread == nullptr) return;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(p) - thread->fiber.stack().low();
  if (offset >= kStackBytes) return access_elsewhere(*thread, p, bytes, write, pc);
  RegisterShadow* const word = thread->fiber.stack().shadow() + offset / 4;
  // The common case: one or two registers that nothing in flight uses.
  if (bytes <= 4 && (*word & kInFlight) == 0) {
    *word = thread->epoch;
    return;
  }
  access_registers(*thread, offset, bytes, write, pc);
}

}  // namespace
}  // namespace tandem::model

#define TANDEM_HOOK(name, bytes, write) \
  void name(void* p) { tandem::model::access(p, bytes, write, __builtin_return_address(0)); }

// The interface that compilers call (compiler-rt, tsan_interface.h).
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
TANDEM_HOOK(__tsan_read1, 1, false)
TANDEM_HOOK(__tsan_read2, 2, false)
TANDEM_HOOK(__tsan_read4, 4, false)
TANDEM_HOOK(__tsan_read8, 8, false)
TANDEM_HOOK(__tsan_read16, 16, false)
TANDEM_HOOK(__tsan_write1, 1, true)
TANDEM_HOOK(__tsan_write2, 2, true)
TANDEM_HOOK(__tsan_write4, 4, true)
TANDEM_HOOK(__tsan_write8, 8, true)
TANDEM_HOOK(__tsan_write16, 16, true)
TANDEM_HOOK(__tsan_unaligned_read2, 2, false)
TANDEM_HOOK(__tsan_unaligned_read4, 4, false)
TANDEM_HOOK(__tsan_unaligned_read8, 8, false)
TANDEM_HOOK(__tsan_unaligned_read16, 16, false)
TANDEM_HOOK(__tsan_unaligned_write2, 2, true)
TANDEM_HOOK(__tsan_unaligned_write4, 4, true)
TANDEM_HOOK(__tsan_unaligned_write8, 8, true)
TANDEM_HOOK(__tsan_unaligned_write16, 16, true)
void __tsan_read_range(void* p, unsigned long bytes) { tandem::model::access(p, static_cast<std::uint32_t>(bytes), false, __builtin_return_address(0)); }
void __tsan_write_range(void* p, unsigned long bytes) { tandem::model::access(p, static_cast<std::uint32_t>(bytes), true, __builtin_return_address(0)); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
