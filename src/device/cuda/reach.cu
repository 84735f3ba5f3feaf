#include "device/cuda/reach.h"

#include <algorithm>
#include <utility>

#ifdef __CUDACC__
#include <nvtx3/nvToolsExtMem.h>
#elif defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace plimsoll::cuda {
namespace {

std::byte* end_of(std::span<std::byte> range) { return range.data() + range.size(); }

// The union of the ranges as disjoint, sorted ranges: a tool accepts no range twice.
std::vector<std::span<std::byte>> united(std::vector<std::span<std::byte>> ranges) {
  std::erase_if(ranges, [](const auto& range) { return range.empty(); });
  std::ranges::sort(ranges, {}, [](const auto& range) { return range.data(); });
  std::vector<std::span<std::byte>> apart;
  for (const std::span<std::byte> range : ranges) {
    if (apart.empty() || range.data() > end_of(apart.back())) {
      apart.push_back(range);
    } else {
      apart.back() = {apart.back().data(), std::max(end_of(apart.back()), end_of(range))};
    }
  }
  return apart;
}

}  // namespace

void Reach::all() { only({memory_}); }

#ifdef __CUDACC__

Reach::Reach(std::span<std::byte> memory) : memory_(memory), domain_(nvtxDomainCreateA("plimsoll")) {
  const nvtxMemVirtualRangeDesc_t range{memory.size(), memory.data()};
  nvtxMemHeapDesc_t pool{};
  pool.extCompatID = NVTX_EXT_COMPATID_MEM;
  pool.structSize = sizeof pool;
  pool.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  pool.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  pool.typeSpecificDescSize = sizeof range;
  pool.typeSpecificDesc = &range;
  pool_ = nvtxMemHeapRegister(static_cast<nvtxDomainHandle_t>(domain_), &pool);
  all();
}
Reach::~Reach() {
  if (pool_ != nullptr) {
    nvtxMemHeapUnregister(static_cast<nvtxDomainHandle_t>(domain_), static_cast<nvtxMemHeapHandle_t>(pool_));
  }
  nvtxDomainDestroy(static_cast<nvtxDomainHandle_t>(domain_));
}

void Reach::only(std::vector<std::span<std::byte>> ranges) {
  if (pool_ == nullptr) return;  // there is no tool; a null handle would mean the whole process
  const auto domain = static_cast<nvtxDomainHandle_t>(domain_);
  const auto pool = static_cast<nvtxMemHeapHandle_t>(pool_);
  std::vector<nvtxMemVirtualRangeDesc_t> regions;
  for (const std::span<std::byte> range : united(std::move(ranges))) regions.push_back({range.size(), range.data()});
  nvtxMemHeapReset(domain, pool);
  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = pool;
  batch.regionCount = regions.size();
  batch.regionDescElementSize = sizeof regions.front();
  batch.regionDescElements = regions.data();
  nvtxMemRegionsRegister(domain, &batch);
}

#else

Reach::Reach(std::span<std::byte> memory) : memory_(memory) {}
Reach::~Reach() { all(); }

#ifdef __SANITIZE_ADDRESS__
void Reach::only(std::vector<std::span<std::byte>> ranges) {
  __asan_poison_memory_region(memory_.data(), memory_.size());
  for (const std::span<std::byte> range : united(std::move(ranges))) {
    __asan_unpoison_memory_region(range.data(), range.size());
  }
}
#else
void Reach::only(std::vector<std::span<std::byte>> ranges) { united(std::move(ranges)); }
#endif

#endif

}  // namespace plimsoll::cuda
