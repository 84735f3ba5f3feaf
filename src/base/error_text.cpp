#include "base/error_text.h"

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using nlohmann::json;

json to_json(const Remedies& remedies) {
  json list = json::array();
  for (const Remedy& remedy : remedies) {
    json changes = json::array();
    for (const Change& change : remedy.changes) changes.push_back({change.key, change.value});
    list.push_back({remedy.words, remedy.command, changes, remedy.note});
  }
  return list;
}

Remedies remedies_from(const json& list) {
  Remedies remedies;
  for (const json& row : list) {
    Remedy& remedy = remedies.emplace_back(row.at(0).get<std::string>());
    remedy.command = row.at(1);
    for (const json& change : row.at(2)) remedy.changes.emplace_back(change.at(0), change.at(1).get<std::string>());
    remedy.note = row.at(3);
  }
  return remedies;
}

json to_json(const Error& error) {
  return {{"kind", static_cast<int>(error.kind)},
          {"exit", static_cast<int>(error.exit)},
          {"code", error.code},
          {"where", error.where},
          {"message", error.message},
          {"expected", error.expected},
          {"remedies", to_json(error.remedies)}};
}

}  // namespace

std::optional<Error> error_from(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  return Error{static_cast<ErrorKind>(object.at("kind").get<int>()),
               static_cast<ExitCode>(object.at("exit").get<int>()),
               object.at("code"),
               object.at("where"),
               object.at("message"),
               object.at("expected"),
               remedies_from(object.at("remedies"))};
}

// Error texts contain text of files and users: bytes that are not UTF-8 are replaced.
std::string text_of(const Error& error) { return to_json(error).dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace plimsoll
