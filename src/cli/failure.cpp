#include "cli/failure.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error_list.h"

namespace plimsoll {

namespace {

std::string text_of(const Error& error) {
  std::string text = fmt::format("{}  [{}] {}\n", error.code, error.where, error.message);
  if (!error.expected.empty()) text += fmt::format("  expected: {}\n", error.expected);
  for (const std::string& remedy : error.remedies) text += fmt::format("  try: {}\n", remedy);
  return text + fmt::format("  more: plimsoll explain {}\n", error.code);
}

nlohmann::json object_of(const Error& error) {
  return {{"code", error.code},
          {"where", error.where},
          {"message", error.message},
          {"expected", error.expected},
          {"try", error.remedies}};
}

}  // namespace

int report_failure(const Error& error, bool json) {
  std::string text = text_of(error);
  const auto* list = dynamic_cast<const ErrorList*>(&error);
  const std::vector<Error> others = list != nullptr ? list->others : std::vector<Error>();
  for (const Error& other : others) text += text_of(other);
  // Where a stream is closed or full there is nobody to tell; the exit code is what remains.
  std::fputs(text.c_str(), stderr);
  if (json) {
    nlohmann::json object = object_of(error);
    object["schema"] = "plimsoll.error/1";
    for (const Error& other : others) object["others"].push_back(object_of(other));
    std::puts(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  return static_cast<int>(error.exit);
}

}  // namespace plimsoll
