#include "records/exports/event_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/file.h"
#include "records/update_lines.h"

namespace plimsoll {
namespace {

constexpr std::string_view kVersion = "brain.Event:2";
constexpr std::size_t kFrame = 16, kHead = 12;                           // length and its checksum, the message, its checksum
constexpr std::uint64_t kMostMessage = 1 << 20;                          // our own have a few hundred bytes
constexpr std::size_t kUnwritten = 64 << 10;                             // bytes
constexpr unsigned kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;  // wire types
// Fields of Event, Summary, Summary.Value and SessionLog.
constexpr unsigned kTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSession = 7, kValue = 1, kTag = 1, kSimpleValue = 2,
                   kStatus = 1;
constexpr std::uint64_t kStart = 1;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }

template <class Number>
void put_number(std::string& text, Number number) {
  std::array<char, sizeof(Number)> bytes;
  std::memcpy(bytes.data(), &number, sizeof number);
  text.append(bytes.data(), bytes.size());
}

template <class Number>
Number number_at(std::string_view text, std::size_t at) {
  Number number{};
  std::memcpy(&number, text.data() + at, sizeof number);
  return number;
}

void put_varint(std::string& text, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  text += static_cast<char>(number);
}

void put_key(std::string& text, unsigned field, unsigned type) { put_varint(text, field << 3 | type); }

void put_bytes(std::string& text, unsigned field, std::string_view bytes) {
  put_key(text, field, kBytes);
  put_varint(text, bytes.size());
  text += bytes;
}

std::string event(double time, std::int64_t step) {
  std::string message;
  put_key(message, kTime, kFixed64);
  put_number(message, time);
  put_key(message, kStep, kVarint);
  put_varint(message, static_cast<std::uint64_t>(step));
  return message;
}

// The fields of a message, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  unsigned field = 0, type = 0;
  std::uint64_t number = 0;  // of a varint, or the bits of a fixed one
  std::string_view bytes;

  // False at the end, and for a message that is none.
  bool next() {
    const auto key = varint();
    if (!key) return false;
    field = static_cast<unsigned>(*key >> 3), type = static_cast<unsigned>(*key & 7);
    if (type == kVarint) {
      const auto value = varint();
      number = value.value_or(0);
      return value.has_value();
    }
    if (type == kBytes) {
      const auto size = varint();
      if (!size || *size > rest_.size()) return false;
      bytes = rest_.substr(0, *size);
      rest_.remove_prefix(*size);
      return true;
    }
    const std::size_t size = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
    if (size == 0 || rest_.size() < size) return false;
    number = size == 8 ? number_at<std::uint64_t>(rest_, 0) : number_at<std::uint32_t>(rest_, 0);
    rest_.remove_prefix(size);
    return true;
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return {};
  }

  std::string_view rest_;
};

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why,
                    "a new folder, or that of an earlier export of the run");
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(std::filesystem::path path, double begun) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd_ < 0) throw cannot_write(path_, std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) throw cannot_write(path_, "it is no regular file");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) throw cannot_write(path_, "another export writes it");
    read();
  } catch (...) {
    ::close(fd_);
    throw;
  }
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && status.st_size > 0) return;
  std::string message;
  put_key(message, kTime, kFixed64);
  put_number(message, begun);
  put_bytes(message, kFileVersion, kVersion);
  put(message);
}

EventFile::~EventFile() { ::close(fd_); }

void EventFile::read() {
  const File file = File::open(path_, "E-IO-WRITE");
  std::string block;
  std::int64_t good = 0;
  std::size_t used = 0;
  bool whole = true;
  for (std::int64_t at = 0; whole && at < file.size();) {
    const std::size_t size = static_cast<std::size_t>(std::min<std::int64_t>(1 << 20, file.size() - at)), before = block.size();
    block.resize(before + size);
    file.read_at(at, std::as_writable_bytes(std::span(block).subspan(before)));
    at += static_cast<std::int64_t>(size);
    while (block.size() - used >= kFrame) {
      const std::string_view rest = std::string_view(block).substr(used);
      const auto length = number_at<std::uint64_t>(rest, 0);
      whole = masked(crc32c(rest.substr(0, 8))) == number_at<std::uint32_t>(rest, 8) && length <= kMostMessage;
      if (!whole || rest.size() < kFrame + length) break;
      const std::string_view message = rest.substr(kHead, length);
      whole = masked(crc32c(message)) == number_at<std::uint32_t>(rest, kHead + length);
      if (!whole) break;
      see(message);
      used += kFrame + length;
    }
    good += static_cast<std::int64_t>(used);
    block.erase(0, std::exchange(used, 0));
  }
  if (good == file.size()) return;
  if (good == 0) throw cannot_write(path_, "it is no event file");
  if (::ftruncate(fd_, good) != 0) throw cannot_write(path_, std::strerror(errno));
}

void EventFile::see(std::string_view message) {
  double time = 0;
  std::int64_t step = 0;
  bool starts = false;
  std::string_view summary;
  for (Fields event(message); event.next();) {
    if (event.field == kTime && event.type == kFixed64) time = std::bit_cast<double>(event.number);
    if (event.field == kStep && event.type == kVarint) step = static_cast<std::int64_t>(event.number);
    if (event.field == kSummary && event.type == kBytes) summary = event.bytes;
    if (event.field != kSession || event.type != kBytes) continue;
    for (Fields session(event.bytes); session.next();) starts = starts || (session.field == kStatus && session.number == kStart);
  }
  if (starts) erase_from(step);
  for (Fields values(summary); values.next();) {
    if (values.field != kValue || values.type != kBytes) continue;
    for (Fields value(values.bytes); value.next();) {
      if (value.field == kTag && value.type == kBytes) note(step, time, value.bytes);
    }
  }
}

void EventFile::note(std::int64_t step, double time, std::string_view tag) {
  auto found = times_.find(tag);
  if (found == times_.end()) found = times_.emplace(std::string(tag), Times()).first;
  found->second.insert_or_assign(found->second.end(), step, time);
}

void EventFile::erase_from(std::int64_t step) {
  for (auto& [tag, times] : times_) times.erase(times.lower_bound(step), times.end());
}

const EventFile::Times& EventFile::times(const std::string& tag) const {
  static const Times kNone;
  const auto found = times_.find(tag);
  return found != times_.end() ? found->second : kNone;
}

void EventFile::put(std::string_view message) {
  std::string head;
  put_number(head, static_cast<std::uint64_t>(message.size()));
  unwritten_ += head;
  put_number(unwritten_, masked(crc32c(head)));
  unwritten_ += message;
  put_number(unwritten_, masked(crc32c(message)));
  if (unwritten_.size() >= kUnwritten) flush();
}

void EventFile::add(std::int64_t step, double time, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kTag, scalar.tag);
    put_key(value, kSimpleValue, kFixed32);
    put_number(value, static_cast<float>(scalar.value));
    put_bytes(summary, kValue, value);
    note(step, time, scalar.tag);
  }
  std::string message = event(time, step);
  put_bytes(message, kSummary, summary);
  put(message);
}

void EventFile::forget(std::int64_t step, double time) {
  std::string session;
  put_key(session, kStatus, kVarint);
  put_varint(session, kStart);
  std::string message = event(time, step);
  put_bytes(message, kSession, session);
  put(message);
  erase_from(step);
}

void EventFile::flush() { append_text(fd_, path_, std::exchange(unwritten_, {})); }

}  // namespace plimsoll
