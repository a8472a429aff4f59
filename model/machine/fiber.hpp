// One CUDA thread: a Boost.Context fiber on a pooled stack, with a word of shadow for each word of the stack.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tandem::model {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::size_t kStackWords = kStackBytes / 4;

// What the model knows of a 32-bit word on a stack, which stands for a register: see registers.hpp.
using RegisterShadow = std::uint32_t;

// A stack with a guard page below it.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::uintptr_t low() const { return reinterpret_cast<std::uintptr_t>(bytes_); }
  unsigned char* bytes() const { return bytes_; }
  RegisterShadow* shadow() const { return shadow_; }

  // The fence epoch of the last thread that ran here: shadow words of earlier threads stay older than any epoch of the next.
  std::uint32_t last_epoch = 0;

 private:
  unsigned char* mapping_ = nullptr;
  unsigned char* bytes_ = nullptr;
  RegisterShadow* shadow_ = nullptr;
};

// Stacks of finished threads, kept for the next launch of this OS thread.
class StackPool {
 public:
  static StackPool& of_this_thread();
  std::unique_ptr<Stack> take();
  void give(std::unique_ptr<Stack> stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<std::unique_ptr<Stack>> free_;
};

// Holds a value whose destructor is never run.
template <class T>
class Undestroyed {
 public:
  Undestroyed() { new (storage_) T(); }
  Undestroyed(const Undestroyed&) = delete;
  Undestroyed& operator=(const Undestroyed&) = delete;
  T& operator*() { return *std::launder(reinterpret_cast<T*>(storage_)); }

 private:
  alignas(T) unsigned char storage_[sizeof(T)];
};

// A fiber that is resumed by the scheduler and suspends back to it. If it never finishes, its stack is dropped without unwinding: kernels
// own nothing, and a thread may be stopped inside an instrumented access, through which no exception may pass.
class Fiber {
 public:
  using Entry = void (*)(void*);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void start(Entry entry, void* argument);
  void resume();   // called by the scheduler
  void suspend();  // called on the fiber

  Stack& stack() const { return *stack_; }
  // The stack holds marks of work in flight: it is not to be used again.
  void discard_stack() { keep_stack_ = false; }

 private:
  std::unique_ptr<Stack> stack_;
  Undestroyed<boost::context::fiber> inside_;   // the thread, while the scheduler runs
  Undestroyed<boost::context::fiber> outside_;  // the scheduler, while the thread runs
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  bool keep_stack_ = true;
  // What AddressSanitizer wants to know; there in every build, since not all files of a build are compiled with it.
  void* fake_stack_inside_ = nullptr;
  void* fake_stack_outside_ = nullptr;
  const void* outside_low_ = nullptr;
  std::size_t outside_size_ = 0;
};

}  // namespace tandem::model
