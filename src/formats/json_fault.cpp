#include "formats/json_fault.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

// Builds nothing and keeps where the first fault is.
struct FaultFinder : nlohmann::json_sax<nlohmann::json> {
  std::string text;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    text = error.what();
    return false;
  }
};

}  // namespace

std::string json_fault(std::string_view text) {
  FaultFinder finder;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &finder)) return "";
  // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while ...": what stands behind "at".
  const std::size_t at = finder.text.find(" at ");
  std::string fault = at == std::string::npos ? finder.text : finder.text.substr(at + 4);
  for (char& c : fault) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  constexpr std::size_t kMost = 160;
  return fault.size() <= kMost ? fault : fault.substr(0, kMost) + "...";
}

}  // namespace plimsoll
