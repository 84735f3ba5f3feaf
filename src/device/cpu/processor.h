// Facts of the processor for decisions about kernels, beyond its instruction set.
#pragma once

namespace plimsoll::cpu {

inline bool intel_core() {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace plimsoll::cpu
