// JSON that may come from anybody, read within limits that the caller states: bytes, values and nesting. Time grows with the
// bytes alone, memory with the values that are kept, and nothing of a text past a limit is held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

struct JsonLimits {
  std::int64_t bytes = 1 << 20;   // of the whole text
  std::int64_t values = 100'000;  // objects, lists, texts, numbers and the like; each takes up to 100 bytes beside its text
  int depth = 32;                 // of objects and lists within each other
};

// tokenizer_config.json and the other small files beside a tokenizer, which may describe thousands of added tokens.
inline constexpr JsonLimits kTokenizerConfigLimits{.bytes = 16 << 20, .values = 250'000};

// The value of a text. Of a key that repeats the last value counts. `fault` says what is wrong and where ("line 3, column 5:
// unexpected '}'"), or is empty; the value is then discarded.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits, std::string& fault);
// The same with keys in the order of the text.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits, std::string& fault);
// The same for readers that tell broken JSON and broken content alike: std::invalid_argument with the fault.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits);

// The object of a file. data_error with `code` where it is longer than the limit, no JSON, past another limit, or no object;
// E-IO-MISSING where it is absent.
nlohmann::json read_json_object(const std::filesystem::path& path, const JsonLimits& limits, const std::string& code,
                                const std::string& expected = "a JSON object");
nlohmann::ordered_json read_ordered_json_object(const std::filesystem::path& path, const JsonLimits& limits,
                                                const std::string& code, const std::string& expected = "a JSON object");

}  // namespace plimsoll
