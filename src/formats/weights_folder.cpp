#include "formats/weights_folder.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/weight_files.h"

namespace plimsoll {

std::filesystem::path weights_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if ((path.filename() == kWeightsFile || path.filename() == kWeightsIndex) && std::filesystem::is_regular_file(path, ignored)) {
    return std::filesystem::absolute(path, ignored).parent_path();
  }
  const auto holds = [&](const std::filesystem::path& folder) {
    return std::filesystem::exists(folder / "config.json", ignored) || std::filesystem::exists(folder / kAdapterConfig, ignored);
  };
  if (holds(path) || !holds(path / "weights")) return path;
  return path / (holds(path / kBestWeights) ? kBestWeights : "weights");
}

std::vector<std::int64_t> end_tokens(const std::filesystem::path& folder) {
  if (is_gguf(folder)) {
    if (!is_there(folder)) return {};
    const nlohmann::ordered_json ends = gguf_generation_config(GgufFile::open(folder))["eos_token_id"];
    if (ends.is_null()) return {};
    return ends.is_array() ? ends.get<std::vector<std::int64_t>>() : std::vector{ends.get<std::int64_t>()};
  }
  std::error_code ignored;
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!std::filesystem::exists(folder / name, ignored)) continue;
    const ConfigReader reader(folder / name);
    const nlohmann::json value = reader.json().value("eos_token_id", nlohmann::json());
    std::vector<std::int64_t> tokens;
    for (const nlohmann::json& each : value.is_array() ? value : nlohmann::json::array({value})) {
      if (each.is_null()) continue;
      if (!each.is_number_integer()) {
        throw reader.refuse("eos_token_id is " + ConfigReader::shown(value), "null, a token, or a list of tokens");
      }
      tokens.push_back(each.get<std::int64_t>());
    }
    if (!tokens.empty()) return tokens;
  }
  return {};
}

}  // namespace plimsoll
