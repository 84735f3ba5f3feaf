#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/say.h"
#include "prepare/plan_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json read_values(const std::string& path) {
  json plan = read_plan(path);
  if (!plan.contains("values")) throw not_a_plan(path, "it does not list its values");
  return std::move(plan.at("values"));
}

std::string value_text(const json& value) {
  const json &op = value.at("op"), &alias = value.at("alias_of");
  std::string text = fmt::format("{}  (value {})\n", value.at("name").get<std::string>(), value.at("id").get<std::int64_t>());
  text += fmt::format("  what      {}, {} {}, {} bytes in {}\n", value.at("role").get<std::string>(),
                      value.at("dtype").get<std::string>(), value.at("shape").dump(), value.at("bytes").get<std::int64_t>(),
                      value.at("tier").get<std::string>());
  text += op.is_null() ? "  made by   nothing: it is fed, or stays for the whole run\n"
                       : fmt::format("  made by   {} at model line {}\n", op.get<std::string>(),
                                     value.at("model_line").get<std::string>());
  text += fmt::format("  action    {}{}\n", value.at("action").get<std::string>(),
                      alias.is_null() ? "" : fmt::format(", in the bytes of value {}", alias.get<std::int64_t>()));
  for (const json& range : value.at("ranges")) {
    text += fmt::format("  {:<9} instructions [{}, {}) at offset {}\n", range.at("phase").get<std::string>(),
                        range.at("begin").get<std::int64_t>(), range.at("end").get<std::int64_t>(),
                        range.at("offset").get<std::int64_t>());
  }
  return text;
}

// The values with a name or an id. A name may stand for several values, such as recomputed copies of one.
std::string values_text(const std::string& what, const std::string& path) {
  std::vector<std::string> names;
  std::string text;
  for (const json& value : read_values(path)) {
    names.push_back(value.at("name").get<std::string>());
    if (names.back() == what || std::to_string(value.at("id").get<std::int64_t>()) == what) text += value_text(value);
  }
  if (!text.empty()) return text;
  if (is_plan_word(what)) return explain_word(what) + "\n";
  const std::string nearest = nearest_name(what, names);
  throw config_error("E-EXPLAIN-VALUE", path, fmt::format("there is no value '{}'", what),
                     nearest.empty() ? "a name or an id of the plan" : fmt::format("perhaps '{}'", nearest));
}

}  // namespace

int run_explain(const ExplainArguments& arguments) {
  const std::string what = fmt::format("{}", fmt::join(arguments.what, " "));
  if (arguments.plan.empty()) {
    print_text(fmt::format("{}\n", explain_word(what)));
  } else {
    try {
      print_text(values_text(what, arguments.plan));
    } catch (const json::exception& error) {
      throw not_a_plan(arguments.plan, fmt::format("its values are broken: {}", error.what()));
    }
  }
  return 0;
}

}  // namespace plimsoll
