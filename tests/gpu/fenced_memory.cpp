#include "fenced_memory.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace tandem::testing {

FencedMemory::FencedMemory(int ordinal) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto load = [&](auto& entry, const char* name) { entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name)); };
  load(api_.granularity, "cuMemGetAllocationGranularity");
  load(api_.reserve, "cuMemAddressReserve");
  load(api_.unreserve, "cuMemAddressFree");
  load(api_.create, "cuMemCreate");
  load(api_.release, "cuMemRelease");
  load(api_.map, "cuMemMap");
  load(api_.unmap, "cuMemUnmap");
  load(api_.set_access, "cuMemSetAccess");
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  if (api_.granularity(&page_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) page_ = 0;
}

FencedMemory::~FencedMemory() {
  for (const Block& block : all_) {
    api_.unmap(block.base, block.bytes);
    api_.unreserve(block.base - page_, block.bytes + 2 * page_);
  }
}

FencedMemory::Block FencedMemory::take(std::size_t bytes) {
  if (page_ == 0) return {};
  const std::size_t whole = (bytes + page_ - 1) / page_ * page_;
  const std::lock_guard lock(mutex_);
  if (const auto found = free_.find(whole); found != free_.end()) {
    const Block block = found->second;
    free_.erase(found);
    return block;
  }
  Block block{0, whole};
  CUdeviceptr reserved = 0;
  if (api_.reserve(&reserved, whole + 2 * page_, 0, 0, 0) != CUDA_SUCCESS) return {};
  block.base = reserved + page_;
  if (!map_pages(block)) {
    api_.unreserve(reserved, whole + 2 * page_);
    return {};
  }
  all_.push_back(block);
  return block;
}

void FencedMemory::give_back(const Block& block) {
  const std::lock_guard lock(mutex_);
  free_.emplace(block.bytes, block);
}

bool FencedMemory::map_pages(const Block& block) const {
  CUmemGenericAllocationHandle memory = 0;
  if (api_.create(&memory, block.bytes, &properties_, 0) != CUDA_SUCCESS) return false;
  const bool mapped = api_.map(block.base, block.bytes, 0, memory, 0) == CUDA_SUCCESS;
  api_.release(memory);  // the mapping keeps it
  if (!mapped) return false;
  const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (api_.set_access(block.base, block.bytes, &access, 1) == CUDA_SUCCESS) return true;
  api_.unmap(block.base, block.bytes);
  return false;
}

}  // namespace tandem::testing
