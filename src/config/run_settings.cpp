#include "config/run_settings.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "config/config_keys.h"
#include "formats/bounded_json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::filesystem::path whole(const std::filesystem::path& path) {
  std::error_code gone;  // the current folder may be gone
  const std::filesystem::path absolute = std::filesystem::absolute(path, gone);
  return (gone ? path : absolute).lexically_normal();
}

json to_json(const std::vector<Setting>& settings, const std::filesystem::path& run) {
  json list = json::array();
  for (const Setting& setting : settings) {
    if (std::holds_alternative<OtherValue>(setting.value)) continue;  // an empty section
    list.push_back({{"name", setting.name},
                    {"text", setting.text},
                    {"where", setting.where},
                    {"base", setting.base.string()},
                    {"from_run", setting.base.lexically_relative(run).string()}});
  }
  return list;
}

// The base of a relative path moves with the run's folder if the file exists there.
void settle_base(Setting& setting, const std::string& from_run, const std::filesystem::path& run) {
  const auto* text = std::get_if<std::string>(&setting.value);
  if (text == nullptr || text->empty() || from_run.empty()) return;
  const std::filesystem::path moved = (run / from_run).lexically_normal();
  std::error_code ignored;
  if (std::filesystem::exists(moved / *text, ignored)) setting.base = moved;
}

std::vector<Setting> settings_from(const json& list, const std::filesystem::path& run, bool typed) {
  std::vector<Setting> settings;
  for (const json& object : list) {
    settings.push_back(
        stored_setting(object.at("name"), object.at("text"), object.at("where"), object.at("base").get<std::string>(), typed));
    settings.back().earlier = typed;
    settle_base(settings.back(), object.at("from_run"), run);
  }
  return settings;
}

}  // namespace

Config load_config(RunSettings& settings, const Bf16Speed& bf16) {
  return config_of(settings.in_file, settings.typed, settings.file.string(), bf16);
}

std::string to_json(const RunSettings& settings, const std::filesystem::path& run) {
  const std::filesystem::path folder = whole(run);
  const json object = {{"schema", "plimsoll.settings/1"},
                       {"file", whole(settings.file).string()},
                       {"in_file", to_json(settings.in_file, folder)},
                       {"typed", to_json(settings.typed, folder)}};
  return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<RunSettings> stored_settings(const std::filesystem::path& run) {
  const std::filesystem::path folder = whole(run);
  try {
    const json object = read_json_object(folder / kRunSettings, {.bytes = 1 << 22}, "E-IO-READ");
    return RunSettings{object.at("file").get<std::string>(), settings_from(object.at("in_file"), folder, false),
                       settings_from(object.at("typed"), folder, true)};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace plimsoll
