#include "cli/failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace plimsoll {

int report_failure(const Error& error, bool json) {
  fmt::print(stderr, "{}  [{}] {}\n", error.code, error.where, error.message);
  if (!error.expected.empty()) fmt::print(stderr, "  expected: {}\n", error.expected);
  for (const std::string& remedy : error.remedies) fmt::print(stderr, "  try: {}\n", remedy);
  fmt::print(stderr, "  more: plimsoll explain {}\n", error.code);
  if (json) {
    const nlohmann::json object = {{"schema", "plimsoll.error/1"}, {"code", error.code},         {"where", error.where},
                                   {"message", error.message},     {"expected", error.expected}, {"try", error.remedies}};
    fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return static_cast<int>(error.exit);
}

}  // namespace plimsoll
