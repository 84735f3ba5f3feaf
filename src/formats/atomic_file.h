// A file that appears whole or not at all. Its bytes go into a temporary file, which has no name where the file system allows
// that. commit() syncs this file, checks its length, renames it over the target and syncs the folder. Until then the target stays
// intact. The folder is opened once, so the file appears in this folder even if its path leads elsewhere meanwhile. Only a
// regular file is replaced, never a device, pipe, socket, folder or link.
// Every failure (full disk, I/O error) is data_error E-IO-WRITE and leaves no file. A named temporary file is locked while it is
// written. So the next writer of the same target recognises the file of a killed process and removes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// The temporary file before it is complete. An unnamed one vanishes with its process; a named one makes a long work visible.
enum class Aside { unnamed, named };

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target, Aside aside = Aside::unnamed);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends without a buffer: the bytes go from the caller's memory to the kernel.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Replaces written bytes.
  void overwrite(std::int64_t offset, std::string_view text);
  std::int64_t written() const { return written_; }

  // Replaces the target with the written bytes. Without a commit the destructor discards them.
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
  bool named_ = false;  // a file aside_ exists
  std::int64_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// The file that a user's path means: the path itself, or the target of a link. An empty path stays empty. data_error E-IO-WRITE
// if something other than a regular file is there, or if its folder is missing; so a command fails before any work is done.
std::filesystem::path output_file(const std::filesystem::path& named);
// The kind of a file that is not regular, such as "it is a link, not a file"; absent for a regular or a missing file.
std::optional<std::string> other_than_file(const std::filesystem::path& path);

// The name of a temporary file of an AtomicFile, or of a temporary folder of an AtomicFolder: "x.plimsoll.partial-77".
std::string partial_name(const std::string& target);
// True if the file has such a name, of this version or of an earlier one: "x.partial-77".
bool is_partial(const std::filesystem::path& file);
bool is_partial_of(const std::filesystem::path& file, const std::string& target);
// A part of the name of a folder that is moved aside and may be the only copy.
inline constexpr std::string_view kReplaced = ".replaced";
// True for a temporary file or folder whose process is gone.
bool is_abandoned_partial(const std::filesystem::path& path);
// Removes the temporary files and folders of killed processes directly in `folder`, for all targets. It removes only those that
// surely belong to this version and to no live process. Every AtomicFile and AtomicFolder calls it first.
void remove_left_behind(const std::filesystem::path& folder);
// Removes the temporary files directly in `folder` whose processes are gone. Files that cannot be opened or removed stay.
void remove_abandoned_partials(const std::filesystem::path& folder);

}  // namespace plimsoll
