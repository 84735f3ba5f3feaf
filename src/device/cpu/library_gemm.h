// Matrix products by oneDNN, if the build has it (PLIMSOLL_ONEDNN). Otherwise no product has a plan here, and our own kernel
// (gemm_tiled.h) runs them all. No other file calls the library.
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
  std::string instruction_set;  // the best set that it uses on this processor: "avx512_core_bf16"
  bool multiplies_bf16 = false;
};

// Absent if the build has no library.
std::optional<LibraryFacts> library_facts();

// Limits the library to "avx2" or "sse4". Called before its first use.
void limit_library(std::string_view most);

class LibraryGemm {
 public:
  struct Plan {
    std::string implementation;  // "onednn-2.6.3 brg:avx512_core packed_b"
    Bytes scratch;               // the library's scratchpad, and packed operands
  };
  // Absent if all implementations of the library hide memory.
  static std::optional<Plan> plan_of(const GemmShape& shape, int threads);
  // The same, bound. Equal shapes share one primitive.
  static std::optional<LibraryGemm> make(const GemmShape& shape, int threads);
  ~LibraryGemm();
  LibraryGemm(LibraryGemm&&) noexcept;
  LibraryGemm& operator=(LibraryGemm&&) noexcept;

  const Plan& plan() const;
  // Like Gemm::run.
  void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;

 private:
  struct Bound;  // a primitive with its memory objects
  LibraryGemm(const GemmShape& shape, std::shared_ptr<const Bound> bound);

  GemmShape shape_;
  std::shared_ptr<const Bound> bound_;
};

}  // namespace plimsoll::cpu
