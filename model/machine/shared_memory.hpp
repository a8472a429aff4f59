// The shared memory of one block: its bytes, which start as NaN patterns, and what the race detector knows of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "machine/shadow.hpp"

namespace tandem::model {

// Dynamic shared memory starts here in the 32-bit window; the system keeps what lies below.
constexpr std::uint32_t kSharedWindowBase = 1024;

class SharedMemory {
 public:
  SharedMemory(std::uint32_t size, AccessLog& log, const FenceTable& fences)
      : size_(size), bytes_(static_cast<unsigned char*>(::operator new (size, std::align_val_t{1024}))), shadow_(size, log, fences) {
    std::memset(bytes_.get(), 0xff, size);
  }

  std::uint32_t size() const { return size_; }
  unsigned char* bytes() const { return bytes_.get(); }
  Shadow& shadow() { return shadow_; }

  bool contains(const void* p) const { return offset_of(p) < size_; }
  // Beyond size() if `p` does not point into it.
  std::uintptr_t offset_of(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(bytes_.get()); }

 private:
  struct Free {
    void operator()(unsigned char* p) const { ::operator delete (p, std::align_val_t{1024}); }
  };
  std::uint32_t size_;
  std::unique_ptr<unsigned char, Free> bytes_;
  Shadow shadow_;
};

}  // namespace tandem::model
