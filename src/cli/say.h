// All output of a command goes through here. Results go to stdout; main() reports its errors. Other messages go to stderr. They
// are dropped if they cannot be written: a full disk under a log, a terminal that is gone. Text from outside carries no control
// characters to a terminal (shown_text.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll {

// Onto stderr, without a line end. Nothing throws, and the error flag of stderr stays as it is. Where nobody reads the pipe any
// more, a training stops (see signals.h).
void say_text(std::string_view text) noexcept;
void say_line(std::string_view line);
// As it stands: with control characters of our own. What is foreign in it has been through shown_text().
void say_marked(std::string_view text) noexcept;

// Onto stdout, without a line end.
void print_text(std::string_view text);
void print_marked(std::string_view text);
// One line. Bytes that are not UTF-8 come as U+FFFD.
void print_json(const nlohmann::json& object);
void print_json(const nlohmann::ordered_json& object);
// A document that may hold such characters in its strings alone, in JSON or TOML.
void print_document(std::string_view text);

}  // namespace plimsoll
