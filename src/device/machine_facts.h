// Facts of this machine that need no measurement: the processor, the libraries' view of it, and the memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct MachineFacts {
  std::string processor;               // model name
  std::string instruction_set;         // of oneDNN (if the build has it) and of Highway: "avx512_core_bf16, AVX3_ZEN4"
  std::vector<std::string> libraries;  // "oneDNN 2.6.3"
  std::string build;                   // version and hash of this executable, on which memory and kernels depend
  int threads = 1;
  Bytes memory;  // of the machine, or the limit of its container
};
MachineFacts machine_facts(int threads);

// True if this processor multiplies bf16 numbers at twice the rate of fp32 or better.
bool multiplies_bf16();

// The part of a host that a rank has beside others. Set before anything asks for cores or memory.
struct HostShare {
  int cores = 0;
  Bytes memory;
  int ranks = 1;  // of this host
};
void share_host(const HostShare& share);

// The number of cores that this process may run on, at least 1; that of its share of a host. The setting "0 threads" stands for
// it.
int usable_cores();
// The largest accepted number of threads; a larger one is an error of the user.
inline constexpr int kMaxThreads = 1024;

struct MemoryFact {
  Bytes bytes;
  std::string source;  // for people: "the memory of the machine"
};

// The memory of the machine or the least limit of its container. `root` replaces "/" in the paths of /proc and /sys, for tests.
MemoryFact total_memory(const std::filesystem::path& root = "/");
// The memory that a process may still take: the least of the kernel's available memory and of the room below each limit of the
// container, or its share of a host. Files in the page cache count as room.
MemoryFact available_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll
