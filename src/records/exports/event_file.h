// An event file of TensorBoard that grows: records with checksums, each a message of event.proto with the few fields used here. A
// file of an earlier export is continued; a torn record at its end is cut off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

struct Scalar {
  std::string_view tag;
  double value = 0;  // stored as fp32
};

class EventFile {
 public:
  // The times of the steps in the file that have a tag.
  using Times = std::map<std::int64_t, double>;

  // Opens the file, or begins it. E-IO-WRITE if it cannot be written, is no such file, or another process writes it.
  EventFile(std::filesystem::path path, double begun);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Readers know these steps and times, after all calls of forget().
  const Times& times(const std::string& tag) const;
  void add(std::int64_t step, double time, std::span<const Scalar> scalars);
  // Readers drop all steps from this one on.
  void forget(std::int64_t step, double time);
  // Writes what has been added.
  void flush();

 private:
  void read();
  void see(std::string_view message);
  void put(std::string_view message);
  void note(std::int64_t step, double time, std::string_view tag);
  void erase_from(std::int64_t step);

  std::filesystem::path path_;
  int fd_ = -1;
  std::string unwritten_;
  std::map<std::string, Times, std::less<>> times_;
};

// The CRC-32C of bytes.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace plimsoll
