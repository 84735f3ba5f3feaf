// JSON from untrusted sources, read within limits on bytes, values and nesting. The time grows with the bytes alone, the memory
// with the kept values. Nothing of a text past a limit is held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace plimsoll {

struct JsonLimits {
  std::int64_t bytes = 1 << 20;   // of the whole text
  std::int64_t values = 100'000;  // objects, lists, texts, numbers, ...; each takes up to 100 bytes in addition to its text
  int depth = 32;                 // nesting of objects and lists
};

// For tokenizer_config.json and the other small files next to a tokenizer, which may describe thousands of added tokens.
inline constexpr JsonLimits kTokenizerConfigLimits{.bytes = 16 << 20, .values = 250'000};

// The value of a text. The last value of a repeated key counts. `fault` gets the error and its place ("line 3, column 5:
// unexpected '}'"), and the value is then discarded; it is empty without an error.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits, std::string& fault);
// The same with keys in the order of the text.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const JsonLimits& limits, std::string& fault);
// The same for callers that report broken JSON like broken content: throws std::invalid_argument with the fault.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits);

// The object in a file. data_error with `code` if the file is no JSON, no object, or past a limit; E-IO-MISSING if it is absent.
nlohmann::json read_json_object(const std::filesystem::path& path, const JsonLimits& limits, const std::string& code,
                                const std::string& expected = "a JSON object");
nlohmann::ordered_json read_ordered_json_object(const std::filesystem::path& path, const JsonLimits& limits,
                                                const std::string& code, const std::string& expected = "a JSON object");

// An object that this program wrote, with its schema ("plimsoll.plan/1"). For any other file it throws refuse(why); `kind`
// ("a plan") names there what it is not.
nlohmann::json read_own_object(const std::filesystem::path& path, const JsonLimits& limits, std::string_view schema,
                               std::string_view kind, const std::function<Error(const std::string& why)>& refuse);

}  // namespace plimsoll
