#include "records/run_note.h"

#include <system_error>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/file.h"

namespace plimsoll {

std::string note_of_run(const std::filesystem::path& run) {
  constexpr std::int64_t kMost = 64 << 10;
  try {
    if (!is_there(run / kNoteFile)) return "";
    std::string text = read_text(run / kNoteFile, kMost, "E-IO-READ");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const Error&) {
    return "";
  }
}

void write_note(const std::filesystem::path& run, std::string_view text) {
  if (!text.empty()) return write_file_atomically(run / kNoteFile, std::string(text) + "\n");
  std::error_code error;
  std::filesystem::remove(run / kNoteFile, error);
  if (error) throw data_error("E-IO-WRITE", (run / kNoteFile).string(), "it cannot be removed: " + error.message());
}

}  // namespace plimsoll
