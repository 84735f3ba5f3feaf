// What is known of this machine without measuring: the processor, what the libraries make of it, and how much memory there is.
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

// Whether this processor has instructions for products of bf16 numbers, which run at twice the rate of fp32 or better.
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
// What a process may still take: the least of what the kernel calls available and what each limit of the container leaves beside
// what cannot be reclaimed. Files in the page cache can.
MemoryFact available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll
