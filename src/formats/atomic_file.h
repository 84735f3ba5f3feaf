// A file that appears whole or not at all: written without a name, or aside where the file system has no such files, fsynced,
// checked for its length and renamed over the target; then the folder is fsynced. What existed before stays intact until then.
// The folder is opened once: a file that was begun in it ends there, wherever its path leads meanwhile. Only a regular file is
// replaced, never a device, pipe, socket, folder or link.
// Every failure (full disk, I/O error) is data_error E-IO-WRITE, and nothing is left. A file aside is locked while it is written,
// so that the next one of the same target can tell what a killed process left, and removes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// Tells whether the temporary file has a name before it is complete. A file without a name vanishes with its process. A file with
// a name makes a long work visible.
enum class Aside { unnamed, named };

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target, Aside aside = Aside::unnamed);
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
  [[noreturn]] void refuse(std::string what);
  void check_target();
  void open_aside(Aside aside);
  void give_name();
  void discard() noexcept;

  std::filesystem::path target_;
  std::string name_, aside_;  // in the folder
  int folder_ = -1, fd_ = -1;
  bool named_ = false;  // whether there is a file called aside_
  std::int64_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// The file behind a path that a user names: the path itself, or the target of a link of that name. data_error E-IO-WRITE, before
// any work is done: something other than a regular file is there, or its folder is missing. An empty path stays empty.
std::filesystem::path output_file(const std::filesystem::path& named);
// The kind of a file that is not regular: "it is a link, not a file". Nothing for a regular file, or if there is no file.
std::optional<std::string> other_than_file(const std::filesystem::path& path);

// The name of a temporary file of an AtomicFile, or of a temporary folder of an AtomicFolder: "x.plimsoll.partial-77".
std::string partial_name(const std::string& target);
// True if the file has such a name, of this version or of an earlier one: "x.partial-77".
bool is_partial(const std::filesystem::path& file);
bool is_partial_of(const std::filesystem::path& file, const std::string& target);
// Stands in the name of a folder that is moved aside and may be the only copy.
inline constexpr std::string_view kReplaced = ".replaced";
// True if it has such a name and belongs to a process that is gone.
bool is_abandoned_partial(const std::filesystem::path& path);
// Removes what killed processes have left right in `folder`, files and folders, whatever their targets: what surely is of a
// process of this version that is gone. Every AtomicFile and AtomicFolder begins so.
void remove_left_behind(const std::filesystem::path& folder);
// Removes such files right in `folder` whose processes are gone. What cannot be looked at or removed stays.
void remove_abandoned_partials(const std::filesystem::path& folder);

}  // namespace plimsoll
