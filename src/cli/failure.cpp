#include "cli/failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll {

int report_failure(const Error& error, bool json) {
  std::string text = fmt::format("{}  [{}] {}\n", error.code, error.where, error.message);
  if (!error.expected.empty()) text += fmt::format("  expected: {}\n", error.expected);
  for (const std::string& remedy : error.remedies) text += fmt::format("  try: {}\n", remedy);
  text += fmt::format("  more: plimsoll explain {}\n", error.code);
  // Where a stream is closed or full there is nobody to tell; the exit code is what remains.
  std::fputs(text.c_str(), stderr);
  if (json) {
    const nlohmann::json object = {{"schema", "plimsoll.error/1"}, {"code", error.code},         {"where", error.where},
                                   {"message", error.message},     {"expected", error.expected}, {"try", error.remedies}};
    std::puts(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return static_cast<int>(error.exit);
}

}  // namespace plimsoll
