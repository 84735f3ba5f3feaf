#include "device/machine_facts.h"

#include <fmt/core.h>
#include <hwy/highway.h>
#include <link.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "device/cpu/library_gemm.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Files of the kernel have no size and are short.
std::string read_kernel_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

std::optional<std::int64_t> number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  return value;
}

// The number after `key` in the first line that begins with it.
std::optional<std::int64_t> field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return number(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

bool multiplies_bf16() {
  const std::optional<cpu::LibraryFacts> library = cpu::library_facts();
  return library && library->multiplies_bf16;
}

namespace {

// Better targets have lower bits.
std::string highway_target() {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;  // the targets of the compiled kernels
  return hwy::TargetName(supported & -supported);
}

// The linker's hash of this executable, from its notes; empty if there is none.
std::string build_id() {
  std::string id;
  const auto visit = [](dl_phdr_info* info, std::size_t, void* to) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_NOTE) continue;
      const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + part.p_vaddr);
      const auto* end = at + part.p_memsz;
      while (end - at > static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
        const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
        const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
        const unsigned char* hash = at + sizeof *note + padded(note->n_namesz);
        at = hash + padded(note->n_descsz);
        if (note->n_type != NT_GNU_BUILD_ID || at > end) continue;
        for (std::size_t k = 0; k < note->n_descsz; ++k) *static_cast<std::string*>(to) += fmt::format("{:02x}", hash[k]);
        return 1;
      }
    }
    return 1;  // the first object is the executable
  };
  ::dl_iterate_phdr(visit, &id);
  return id;
}

std::string build_name() {
  if (const std::string id = build_id(); !id.empty()) return fmt::format("{} {}", PLIMSOLL_VERSION, id);
  std::error_code ignored;
  const std::uintmax_t size = fs::file_size("/proc/self/exe", ignored);
  return fmt::format("{} {}", PLIMSOLL_VERSION, ignored ? 0 : size);
}

// A control group with the limit and the use of its memory. File names differ between versions 2 and 1 of the interface.
struct Group {
  fs::path folder;
  bool second = true;  // version 2

  std::optional<std::int64_t> limit() const {
    return number(read_kernel_file(folder / (second ? "memory.max" : "memory.limit_in_bytes")));
  }
  std::optional<std::int64_t> unreclaimable() const {
    const auto used = number(read_kernel_file(folder / (second ? "memory.current" : "memory.usage_in_bytes")));
    if (!used) return std::nullopt;
    const std::string stat = read_kernel_file(folder / "memory.stat");
    const std::string prefix = second ? "" : "total_";
    std::int64_t files = 0;
    for (const char* name : {"active_file ", "inactive_file "}) files += field(stat, prefix + name).value_or(0);
    if (second) files += field(stat, "slab_reclaimable ").value_or(0);
    return std::max<std::int64_t>(0, *used - files);
  }
};

// The group of this process and all groups above it, each of which may set a limit. Inside a container the path of the group may
// not be mounted; the mount point is then the container's own group.
std::vector<Group> groups(const fs::path& root) {
  std::vector<Group> found;
  std::istringstream lines(read_kernel_file(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers != "memory") continue;
    const fs::path mount = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    for (std::error_code ignored; !path.empty(); path = path.parent_path()) {
      if (fs::is_directory(mount / path, ignored)) found.push_back({mount / path, unified});
    }
    found.push_back({mount, unified});
  }
  return found;
}

std::optional<HostShare> host_share;

// Version 1 writes numbers from here on for "no limit".
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

template <class Left>
MemoryFact least(const fs::path& root, const char* key, const char* words, const Left& left) {
  const std::string info = read_kernel_file(root / "proc/meminfo");
  MemoryFact fact{kKiB * field(info, key).value_or(0), words};
  for (const Group& group : groups(root)) {
    const auto limit = group.limit();
    if (!limit || *limit >= kNoLimit) continue;
    const Bytes bytes{std::max<std::int64_t>(0, left(group, *limit))};
    if (bytes >= fact.bytes) continue;
    fact = {bytes, fmt::format("the limit of {} in {}", to_text(Bytes{*limit}), group.folder.string())};
  }
  return fact;
}

}  // namespace

MemoryFact total_memory(const fs::path& root) {
  return least(root, "MemTotal:", "the memory of the machine", [](const Group&, std::int64_t limit) { return limit; });
}

MemoryFact available_memory(const fs::path& root) {
  if (host_share) {
    return {host_share->memory, fmt::format("the share of one of {} ranks in the available memory of a host", host_share->ranks)};
  }
  return least(root, "MemAvailable:", "the memory that the kernel reports as available",
               [](const Group& group, std::int64_t limit) { return limit - group.unreclaimable().value_or(0); });
}

void share_host(const HostShare& share) { host_share = share; }

int usable_cores() {
  if (host_share) return host_share->cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

MachineFacts machine_facts(int threads) {
  const std::optional<cpu::LibraryFacts> library = cpu::library_facts();
  std::vector<std::string> libraries{fmt::format("Highway {}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)};
  if (library) libraries.insert(libraries.begin(), library->name);
  return {.processor = processor_name(),
          .instruction_set = library ? fmt::format("{}, {}", library->instruction_set, highway_target()) : highway_target(),
          .libraries = std::move(libraries),
          .build = build_name(),
          .threads = threads,
          .memory = total_memory().bytes};
}

}  // namespace plimsoll
