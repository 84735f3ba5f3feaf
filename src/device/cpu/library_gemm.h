// Matrix products by oneDNN where the build has it (PLIMSOLL_ONEDNN). Where it has not, no product has a plan here, and our own
// kernel (gemm_tiled.h) runs them all. Nothing else of ours speaks to the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

struct LibraryFacts {
  std::string name;             // "oneDNN 2.6.3"
  std::string instruction_set;  // "avx512_core_bf16": the most that it uses on this processor
  bool multiplies_bf16 = false;
};

// Nothing where the build has no library.
std::optional<LibraryFacts> library_facts();

// "avx2" or "sse4": the most that the library may use, before it is used at all.
void limit_library(std::string_view most);

class LibraryGemm {
 public:
  struct Plan {
    std::string implementation;  // "onednn-2.6.3 brg:avx512_core packed_b"
    Bytes scratch;               // the library's scratchpad, and packed operands
  };
  // Nothing where the library offers only implementations that hide memory.
  static std::optional<Plan> plan_of(const GemmShape& shape, int threads);
  // The same, bound. Equal shapes share one primitive.
  static std::optional<LibraryGemm> make(const GemmShape& shape, int threads);
  ~LibraryGemm();
  LibraryGemm(LibraryGemm&&) noexcept;
  LibraryGemm& operator=(LibraryGemm&&) noexcept;

  const Plan& plan() const;
  // As Gemm::run. The library's own bookkeeping, a few hundred bytes of heap, is gone when it returns.
  void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;

 private:
  struct Bound;  // a primitive with its memory objects
  LibraryGemm(const GemmShape& shape, std::shared_ptr<const Bound> bound);

  GemmShape shape_;
  std::shared_ptr<const Bound> bound_;
};

}  // namespace plimsoll::cpu
