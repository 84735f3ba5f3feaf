// A file that appears whole or not at all: written under a temporary name beside the target, fsynced, checked for its length and
// renamed over the target; then the folder is fsynced. What existed before stays intact until that moment.
// Every failure (full disk, I/O error) is data_error E-IO-WRITE, and the temporary file is removed. The temporary file is locked
// while it is written, so that others can tell what a killed process left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace plimsoll {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. Unbuffered: the bytes go from the caller's memory to the kernel.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Replaces bytes that have been written.
  void overwrite(std::int64_t offset, std::string_view text);
  std::int64_t written() const { return written_; }

  // Makes the target what was written. Without it the destructor discards everything.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view action, int error);
  void discard() noexcept;
  void sync_folder();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::int64_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// The name of a temporary file of an AtomicFile, or of a temporary folder of an AtomicFolder.
bool is_partial(const std::filesystem::path& file);
// What has such a name and belongs to a process that is gone.
bool is_abandoned_partial(const std::filesystem::path& path);
// Removes such files right in `folder` whose processes are gone. What cannot be looked at or removed stays.
void remove_abandoned_partials(const std::filesystem::path& folder);

}  // namespace plimsoll
