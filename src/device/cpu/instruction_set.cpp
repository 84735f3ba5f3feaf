#include "device/cpu/instruction_set.h"

#include <fmt/core.h>
#include <hwy/highway.h>

#include <cstdint>

#include "base/error.h"
#include "device/cpu/library_gemm.h"

namespace plimsoll::cpu {
namespace {

bool limited = false;

Error unknown(std::string_view most) {
  return config_error("E-USAGE", "PLIMSOLL_MAX_ISA", fmt::format("it is \"{}\"", most), "avx2 or sse4, on an x86 processor",
                      {"unset PLIMSOLL_MAX_ISA"});
}

}  // namespace

void limit_instruction_set(std::string_view most) {
#ifdef __x86_64__
  if (most != "avx2" && most != "sse4") throw unknown(most);
  const std::int64_t target = most == "avx2" ? HWY_AVX2 : HWY_SSE4;
  hwy::DisableTargets(target - 1);  // better targets have lower bits
  limit_library(most);
  limited = true;
#else
  throw unknown(most);
#endif
}

bool avx512_allowed() { return !limited; }

bool fuses_multiply_add() {
#ifdef __x86_64__
  return (hwy::SupportedTargets() & HWY_TARGETS & (2 * HWY_AVX2 - 1)) != 0;  // better targets have lower bits
#else
  return true;
#endif
}

}  // namespace plimsoll::cpu
