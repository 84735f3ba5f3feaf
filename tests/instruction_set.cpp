// Part of every test binary: PLIMSOLL_MAX_ISA limits the kernels as it does in the program, before any test runs.
#include "device/cpu/instruction_set.h"

#include <cstdio>
#include <cstdlib>

#include "base/error.h"

namespace {

const bool limited = [] {
  const char* most = std::getenv("PLIMSOLL_MAX_ISA");
  if (most == nullptr || *most == '\0') return false;
  try {
    plimsoll::cpu::limit_instruction_set(most);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  return true;
}();

}  // namespace
