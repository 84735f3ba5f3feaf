#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/init.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json read_values(const std::string& path) {
  std::ifstream file(path);
  const json plan = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!plan.is_object() || !plan.contains("values")) {
    throw config_error("E-PLAN-FILE", path, "it is not a plan with values", "a file that `plimsoll plan --out` wrote",
                       {"plimsoll plan CONFIG --out plan.json"});
  }
  return plan.at("values");
}

void explain_value(const std::string& what, const std::string& path) {
  const json values = read_values(path);
  std::vector<std::string> names;
  for (const json& value : values) {
    names.push_back(value.at("name").get<std::string>());
    if (names.back() != what && std::to_string(value.at("id").get<std::int64_t>()) != what) continue;
    fmt::print("{}  (value {})\n", names.back(), value.at("id").get<std::int64_t>());
    fmt::print("  what    {} {} {}, {} bytes\n", value.at("role").get<std::string>(), value.at("dtype").get<std::string>(),
               value.at("shape").dump(), value.at("bytes").get<std::int64_t>());
    fmt::print("  made by {} at model line {}\n", value.at("op").is_null() ? "nothing: it is fed or persistent" : value.at("op").get<std::string>(),
               value.at("model_line").get<std::string>());
    fmt::print("  action  {}{}\n", value.at("action").get<std::string>(),
               value.at("alias_of").is_null() ? "" : fmt::format(", in the bytes of value {}", value.at("alias_of").get<std::int64_t>()));
    for (const json& range : value.at("ranges")) {
      fmt::print("  {:<9} instructions [{}, {}) at offset {}\n", range.at("phase").get<std::string>(), range.at("begin").get<int>(),
                 range.at("end").get<int>(), range.at("offset").get<std::int64_t>());
    }
    return;
  }
  const std::string nearest = nearest_name(what, names);
  throw config_error("E-EXPLAIN-VALUE", path, fmt::format("there is no value '{}'", what),
                     nearest.empty() ? "a name or an id of the plan" : fmt::format("perhaps '{}'", nearest));
}

}  // namespace

int run_init(const InitArguments& arguments) {
  fmt::print("{}", arguments.preset.empty() ? init_text() : init_text(arguments.preset));
  return 0;
}

int run_explain(const ExplainArguments& arguments) {
  if (arguments.plan.empty()) {
    fmt::print("{}\n", explain_code(arguments.what));
  } else {
    explain_value(arguments.what, arguments.plan);
  }
  return 0;
}

}  // namespace plimsoll
