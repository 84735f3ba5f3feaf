// Shell commands that turn a file of another kind into training data. Each can be pasted as it is: it quotes the name of the
// file, reads columns or keys that the file has, and writes a file that does not exist yet.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// `command` with the file in place of FILE, and a new file next to it in place of OUT.txt (OUT.jsonl, OUT.bin).
std::string conversion(std::string command, const std::string& file);

// Commands for a table (CSV) with these first bytes. They print its texts one after the other, or its rows as samples of
// data.format "chat".
std::string text_of_table(std::string_view begin, const std::string& file);
std::string samples_of_table(std::string_view begin, const std::string& file);
// The command for JSON objects, one per line (`lines`) or in one array.
std::string text_of_json(std::string_view begin, bool lines, const std::string& file);

}  // namespace plimsoll
