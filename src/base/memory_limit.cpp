#include "base/memory_limit.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace plimsoll {
namespace {

// Pages of the program and its libraries that planning reads.
constexpr Bytes kProgram{16 * kMiB.n};

struct Held {
  Bytes resident, of_files, data;  // `data`: the bytes that RLIMIT_DATA counts
};

Held held_now() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return {};
  std::array<std::int64_t, 6> pages{};  // size, resident, shared, text, lib, data
  for (std::int64_t& number : pages) {
    if (std::fscanf(file, "%" SCNd64, &number) != 1) number = 0;
  }
  std::fclose(file);
  return {kPage * pages[1], kPage * pages[2], kPage * pages[5]};
}

std::optional<Bytes> asked;  // limit of the command
Bytes last_asked;
Bytes of_parents;  // the parents' part of the limit
rlim_t before = RLIM_INFINITY;

void set_soft_limit(rlim_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ::setrlimit(RLIMIT_DATA, &limit);
}

Bytes room_now() {
  const Held held = held_now();
  const Bytes program = std::max(Bytes{0}, kProgram - held.of_files);
  return std::max(Bytes{0}, *asked - of_parents - held.resident - program);
}

// Later threads get small stacks: the limit counts every byte of a stack, touched or not.
void make_stacks_small() {
  constexpr std::size_t kStack = 2 << 20;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, kStack) == 0) ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

void take_effect() {
  make_stacks_small();
  set_soft_limit(static_cast<rlim_t>((held_now().data + room_now()).n));
}

// Drops the pages of private mappings of files that are read-only and have no anonymous page, which would hold own changes.
void drop_pages_of_files() {
  std::FILE* file = std::fopen("/proc/self/smaps", "re");
  if (file == nullptr) return;
  std::array<char, 512> line;
  std::uintptr_t begin = 0, end = 0;
  bool of_file = false;
  while (std::fgets(line.data(), line.size(), file) != nullptr) {
    std::array<char, 5> rights{};
    std::uintptr_t from = 0, to = 0;
    unsigned long inode = 0;
    long kilobytes = 0;
    if (std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &from, &to, rights.data(), &inode) == 4) {
      begin = from, end = to;
      of_file = inode != 0 && rights[0] == 'r' && rights[1] == '-' && rights[3] == 'p';
    } else if (std::sscanf(line.data(), "Anonymous: %ld", &kilobytes) == 1 && of_file && kilobytes == 0) {
      ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
    }
  }
  std::fclose(file);
}

}  // namespace

MemoryLimit::MemoryLimit(std::optional<Bytes> bytes) {
  rlimit limit{};
  if (!bytes || asked || ::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  before = limit.rlim_cur;
  last_asked = std::max(*bytes, kLeast);
  asked = last_asked;
  of_parents = {};
  take_effect();
}

MemoryLimit::~MemoryLimit() {
  if (!asked) return;
  asked.reset();
  set_soft_limit(before);
}

std::optional<Bytes> MemoryLimit::room() { return asked ? std::optional(room_now()) : std::nullopt; }

bool MemoryLimit::holds() { return asked.has_value(); }

std::size_t MemoryLimit::threads(std::size_t most) {
  constexpr Bytes kOfEach{16 * kMiB.n};
  if (!asked) return most;
  return std::clamp<std::size_t>(static_cast<std::size_t>(room_now().n / kOfEach.n), 1, most);
}

Error MemoryLimit::passed() {
  if (last_asked.n == 0) {
    return {ErrorKind::environment,
            ExitCode::does_not_fit,
            "E-MEM-ARENA",
            "process",
            "the system gives no more memory",
            "free memory, within the limits of the process and its container",
            {"ulimit -v unlimited"}};
  }
  return {ErrorKind::user,
          ExitCode::does_not_fit,
          "E-MEM-PLAN",
          "memory.budget",
          fmt::format("planning needs more than {}, the memory that the training may take", to_text(last_asked)),
          "a budget that planning fits as well",
          {Change("memory.budget", fmt::format("{}MiB", last_asked.n * 2 / kMiB.n))}};
}

Bytes MemoryLimit::held_while_waiting() {
  if (!asked) return {};
  drop_pages_of_files();
  return of_parents + held_now().resident;
}

void MemoryLimit::release() {
  if (asked) set_soft_limit(before);
}

void MemoryLimit::enter_child(Bytes parents) noexcept {
  if (!asked) return;
  of_parents = parents;
  take_effect();
}

}  // namespace plimsoll
