#include "device/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace plimsoll {
namespace {

// By plain reads: a stream would allocate.
Bytes field(const char* file, std::string_view name) {
  std::array<char, 4096> text;
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Bytes{0};
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  if (size <= 0) return Bytes{0};
  text[static_cast<std::size_t>(size)] = '\0';
  const std::string_view all(text.data(), static_cast<std::size_t>(size));
  const std::size_t at = all.find(name);
  if (at == std::string_view::npos) return Bytes{0};
  return Bytes{std::strtoll(text.data() + at + name.size(), nullptr, 10) * 1024};
}

}  // namespace

Bytes peak_resident() { return field("/proc/self/status", "VmHWM:"); }
Bytes now_resident() { return field("/proc/self/status", "VmRSS:"); }
Bytes counted_resident() { return field("/proc/self/smaps_rollup", "\nRss:"); }

}  // namespace plimsoll
