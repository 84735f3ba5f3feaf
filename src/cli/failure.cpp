#include "cli/failure.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error_list.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "cli/spelling.h"

namespace plimsoll {

namespace {

// One line per part, even if a file or a template has put line ends into it.
std::string text_of(const Error& error) {
  const auto shown = [](const std::string& text) { return shown_text(text, ShownAs::line); };
  std::string text = fmt::format("{}  [{}] {}\n", error.code, shown(error.where), shown(error.message));
  if (!error.expected.empty()) text += fmt::format("  expected: {}\n", shown(error.expected));
  for (const Remedy& remedy : error.remedies) text += fmt::format("  try: {}\n", shown(text_of(remedy)));
  return text + fmt::format("  more: plimsoll explain {}\n", error.code);
}

nlohmann::json object_of(const Error& error) {
  nlohmann::json advice = nlohmann::json::array();
  for (const Remedy& remedy : error.remedies) advice.push_back(text_of(remedy));
  return {{"code", error.code},
          {"where", error.where},
          {"message", error.message},
          {"expected", error.expected},
          {"try", std::move(advice)}};
}

}  // namespace

int report_failure(const Error& error, bool json) {
  std::string text = text_of(error);
  const auto* list = dynamic_cast<const ErrorList*>(&error);
  const std::vector<Error> others = list != nullptr ? list->others : std::vector<Error>();
  for (const Error& other : others) text += text_of(other);
  // A closed or full stream takes no report; the exit code remains.
  if (!logs_json()) say_marked(text);
  if (json || logs_json()) {
    nlohmann::json object = object_of(error);
    object["schema"] = "plimsoll.error/1";
    for (const Error& other : others) object["others"].push_back(object_of(other));
    if (json) print_json(object);
    object["event"] = "error";
    object.erase("schema");
    if (logs_json()) log_object(object);
  }
  return static_cast<int>(error.exit);
}

}  // namespace plimsoll
