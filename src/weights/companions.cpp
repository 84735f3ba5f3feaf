#include "weights/companions.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "formats/bounded_json.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/temporary_folder.h"
#include "formats/tokenizer_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kTemplate = "chat_template.jinja", *kTemplates = "chat_templates", *kConfig = "tokenizer_config.json",
                     *kKey = "chat_template";

// An empty object if no readable one exists; the tokenizer's reader reports that.
Json tokenizer_config(const fs::path& folder) {
  if (!is_there(folder / kConfig)) return Json::object();
  std::string fault;
  Json config =
      parse_ordered_json(read_text(folder / kConfig, kTokenizerConfigLimits.bytes, "E-TOKENIZER"), kTokenizerConfigLimits, fault);
  return fault.empty() && config.is_object() ? config : Json::object();
}

// Null if the configuration has none.
Json template_key(const fs::path& folder) {
  const Json config = tokenizer_config(folder);
  const auto found = config.find(kKey);
  return found == config.end() ? Json() : *found;
}

std::vector<std::string> named_templates(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kTemplates, ignored)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool has_template_files(const fs::path& folder) { return is_there(folder / kTemplate) || !named_templates(folder).empty(); }
bool has_templates(const fs::path& folder) { return has_template_files(folder) || !template_key(folder).is_null(); }

// The default chat template, or all named ones as JSON.
std::string template_text(const fs::path& folder) {
  constexpr std::int64_t kMostTemplate = 1 << 20;
  for (const fs::path& file : {folder / kTemplate, folder / kTemplates / "default.jinja"}) {
    if (is_there(file)) return read_text(file, kMostTemplate, "E-CHAT-TEMPLATE");
  }
  const Json key = template_key(folder);
  return key.is_string() ? key.get<std::string>() : key.dump();
}

void write_template_key(const fs::path& folder, const Json& key) {
  Json config = tokenizer_config(folder);
  config[kKey] = key;
  write_json(folder / kConfig, config);
}

void take_tokenizer(const fs::path& from, const fs::path& to) {
  const Json key = has_templates(from) ? Json() : template_key(to);
  std::vector<std::string_view> names(tokenizer_files().begin(), tokenizer_files().end());
  std::erase(names, kTemplate);
  std::error_code ignored;
  for (const std::string_view name : names) fs::remove(to / name, ignored);
  copy_files(from, to, names, /*replace=*/true);
  if (!key.is_null()) write_template_key(to, key);
}

void take_templates(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::remove(to / kTemplate, ignored);
  fs::remove_all(to / kTemplates, ignored);
  copy_files(from, to, std::array{std::string_view(kTemplate)}, /*replace=*/true);
  if (const std::vector<std::string> named = named_templates(from); !named.empty()) {
    fs::create_directories(to / kTemplates, ignored);
    copy_files(from / kTemplates, to / kTemplates, std::vector<std::string_view>(named.begin(), named.end()), /*replace=*/true);
  }
  if (!has_template_files(from)) write_template_key(to, template_key(from));
}

}  // namespace

Companions take_companions(const ModelSource& source, const fs::path& folder) {
  const fs::path& adapter = source.adapter.init;
  Companions taken;
  if (adapter.empty()) return taken;
  taken.tokenizer = source.tokenizer() != source.folder;
  taken.chat_template = has_templates(adapter);
  taken.other_template = taken.chat_template && template_text(adapter) != template_text(folder);
  if (taken.tokenizer) take_tokenizer(adapter, folder);
  if (taken.chat_template) take_templates(adapter, folder);
  copy_files(adapter, folder, generation_files(), /*replace=*/true);
  return taken;
}

bool has_other_template(const ModelSource& source) {
  const fs::path& adapter = source.adapter.init;
  if (adapter.empty() || !has_templates(adapter)) return false;
  if (!is_gguf(source.folder)) return template_text(adapter) != template_text(source.folder);
  const TemporaryFolder unpacked;
  const GgufFile file = GgufFile::open(source.folder);
  if (has_tokenizer(file)) write_gguf_tokenizer(file, unpacked.path(), /*replace=*/true);
  return template_text(adapter) != template_text(unpacked.path());
}

}  // namespace plimsoll
