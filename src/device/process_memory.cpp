#include "device/process_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace plimsoll {
namespace {

// Reads a text character by character and finds the number after `name` at the start of a line.
class FieldReader {
 public:
  explicit FieldReader(std::string_view name) : name_(name) {}

  // Returns true when the number is complete.
  bool take(char letter) {
    if (letter == '\n') {
      matched_ = 0, other_ = false;
      return value_ >= 0;
    }
    if (matched_ < name_.size()) {
      other_ = other_ || letter != name_[matched_];
      matched_ += other_ ? 0 : 1;
      return false;
    }
    if (letter < '0' || letter > '9') return value_ >= 0;
    value_ = (value_ < 0 ? 0 : value_ * 10) + (letter - '0');
    return false;
  }
  // Negative if there is none.
  std::int64_t value() const { return value_; }

 private:
  std::string_view name_;
  std::size_t matched_ = 0;
  bool other_ = false;  // the line belongs to another field
  std::int64_t value_ = -1;
};

// Plain reads, because a stream would allocate.
std::optional<Bytes> field(const char* file, std::string_view name) {
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  FieldReader reader(name);
  std::array<char, 1024> text;
  for (bool done = false; !done;) {
    const ssize_t size = read(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    for (ssize_t i = 0; i < size && !done; ++i) done = reader.take(text[static_cast<std::size_t>(i)]);
  }
  close(fd);
  if (reader.value() < 0) return std::nullopt;
  return Bytes{reader.value() * 1024};
}

Bytes status_field(std::string_view name) {
  constexpr const char* kStatus = "/proc/self/status";
  if (const std::optional<Bytes> bytes = field(kStatus, name)) return *bytes;
  throw data_error("E-MEM-COUNT", kStatus,
                   fmt::format("the kernel reports no {} for this process", name.substr(0, name.size() - 1)),
                   "a Linux kernel with /proc mounted");
}

}  // namespace

Bytes peak_resident() { return status_field("VmHWM:"); }

Bytes counted_resident() {
  const std::optional<Bytes> counted = field("/proc/self/smaps_rollup", "Rss:");
  return counted ? *counted : status_field("VmRSS:");
}

Bytes anonymous_resident() { return field("/proc/self/status", "RssAnon:").value_or(Bytes{0}); }

Bytes file_resident() { return field("/proc/self/status", "RssFile:").value_or(Bytes{0}); }

}  // namespace plimsoll
