// Facts of this machine that need no measurement: the processor, the libraries' view of it, and the memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct MachineFacts {
  std::string processor;               // model name
  std::string instruction_set;         // "avx512_core_bf16, AVX3_ZEN4": what oneDNN, where the build has it, and Highway use
  std::vector<std::string> libraries;  // "oneDNN 2.6.3"
  std::string build;                   // version and hash of this executable: its needs and kernels are its own
  int threads = 1;
  Bytes memory;  // of the machine, or the limit of its container
};
MachineFacts machine_facts(int threads);

// True: this processor has instructions for products of bf16 numbers, at twice the rate of fp32 or better.
bool multiplies_bf16();

// Cores that this process may run on, at least 1: what "0 threads" means everywhere.
int usable_cores();
// More threads than this are taken for a mistake.
inline constexpr int kMaxThreads = 1024;

// Bytes and, in words, what sets them.
struct MemoryFact {
  Bytes bytes;
  std::string source;
};

// The memory of the machine or the least limit of its container. `root` stands before /proc and /sys.
MemoryFact total_memory(const std::filesystem::path& root = "/");
// Memory that a process may still take: the least of the kernel's available memory and the room under each limit of the
// container. Files in the page cache count as room.
MemoryFact available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll
