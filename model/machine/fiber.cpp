#include "machine/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tandem::model {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kShadowBytes = kStackWords * sizeof(RegisterShadow);
constexpr std::size_t kMappingBytes = kShadowBytes + kGuardBytes + kStackBytes;

// Boost.Context asks for an allocator; the stack belongs to the Fiber.
struct NoAllocator {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) {}
};

}  // namespace

Stack::Stack() {
  void* mapping = mmap(nullptr, kMappingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "model: no memory for a thread's stack");
  mapping_ = static_cast<unsigned char*>(mapping);
  mprotect(mapping_ + kShadowBytes, kGuardBytes, PROT_NONE);
  shadow_ = reinterpret_cast<RegisterShadow*>(mapping_);
  bytes_ = mapping_ + kShadowBytes + kGuardBytes;
}

Stack::~Stack() { munmap(mapping_, kMappingBytes); }

StackPool& StackPool::of_this_thread() {
  thread_local StackPool pool;
  return pool;
}

std::unique_ptr<Stack> StackPool::take() {
  if (free_.empty()) return std::make_unique<Stack>();
  std::unique_ptr<Stack> stack = std::move(free_.back());
  free_.pop_back();
  return stack;
}

Fiber::~Fiber() {
  const bool finished = !*inside_;
  if (stack_ && finished && keep_stack_) StackPool::of_this_thread().give(std::move(stack_));
}

void Fiber::start(Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
  stack_ = StackPool::of_this_thread().take();
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack_->bytes(), kStackBytes);
#endif
  boost::context::stack_context context;
  context.sp = stack_->bytes() + kStackBytes;
  context.size = kStackBytes;
  const boost::context::preallocated place(context.sp, context.size, context);
  *inside_ = boost::context::fiber(std::allocator_arg, place, NoAllocator{}, [this](boost::context::fiber&& outside) {
    *outside_ = std::move(outside);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &outside_low_, &outside_size_);
#endif
    entry_(argument_);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(nullptr, outside_low_, outside_size_);
#endif
    return std::move(*outside_);
  });
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_outside_, stack_->bytes(), kStackBytes);
#endif
  *inside_ = std::move(*inside_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_outside_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_inside_, outside_low_, outside_size_);
#endif
  *outside_ = std::move(*outside_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_inside_, &outside_low_, &outside_size_);
#endif
}

}  // namespace tandem::model
