// All output of a command goes through here. Results go to stdout; main() reports its errors. Other messages go to stderr. They
// are dropped if they cannot be written: a full disk under a log, a terminal that is gone. Text from outside carries no control
// characters to a terminal (shown_text.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll {

// Writes to stderr, without a line end. Never throws, and leaves the error flag of stderr unchanged. A pipe without a reader
// stops a training (signals.h).
void say_text(std::string_view text) noexcept;
void say_line(std::string_view line);
// Writes the text unchanged, with our own control characters. Foreign parts have passed through shown_text().
void say_marked(std::string_view text) noexcept;

// From here on say_text() and say_line() write JSON objects, one a line: {"event": "note", "time", "text"}.
void log_as_json();
bool logs_json();
// Writes an object as such a line, and adds its time.
void log_object(const nlohmann::json& object);
// Drops all output from here on: that of a rank other than the first.
void keep_silent(bool silent = true);

// Writes to stdout, without a line end.
void print_text(std::string_view text);
void print_marked(std::string_view text);
// Writes one line of JSON. Bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::json& object);
void print_json(const nlohmann::ordered_json& object);
// Writes a JSON or TOML document. Only its strings may hold control characters.
void print_document(std::string_view text);

}  // namespace plimsoll
