// The note of a run, which a person writes: note.txt in its folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr const char* kNoteFile = "note.txt";

// Empty without a readable note.
std::string note_of_run(const std::filesystem::path& run);
// An empty text removes the note. E-IO-WRITE.
void write_note(const std::filesystem::path& run, std::string_view text);

}  // namespace plimsoll
