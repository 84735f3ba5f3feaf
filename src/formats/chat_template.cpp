#include "formats/chat_template.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/temporary_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTemplate = 1 << 20;
constexpr std::size_t kMostTemplates = 64;

Json read_object(const std::filesystem::path& path) {
  return is_there(path) ? read_json_object(path, kTokenizerConfigLimits, "E-TOKENIZER") : Json::object();
}

class Loader {
 public:
  explicit Loader(std::string shown) : shown_(std::move(shown)) {}

  void read_folder(const std::filesystem::path& folder, bool with_templates) {
    const std::filesystem::path path = folder / "tokenizer_config.json";
    const Json config = read_object(path);
    read_tokens(config);
    // transformers reads this only if the configuration does not describe added tokens itself.
    if (!config.contains("added_tokens_decoder")) read_tokens(read_object(folder / "special_tokens_map.json"));
    if (!with_templates) return;
    read_files(folder);
    if (!result.by_name.empty()) return;
    if (const auto found = config.find("chat_template"); found != config.end()) read_key(*found, name_of(path));
  }

  void read_file(const std::filesystem::path& path, const std::string& name) {
    add(name, read_text(path, kMostTemplate, "E-CHAT-TEMPLATE"), name_of(path));
  }

  ChatTemplates result;

 private:
  // The folder of a GGUF file's templates is temporary, so errors name the GGUF file.
  std::string name_of(const std::filesystem::path& path) const { return shown_.empty() ? path.string() : shown_; }

  void add(const std::string& name, const std::string& text, const std::string& file) {
    if (result.by_name.size() == kMostTemplates) {
      throw data_error("E-CHAT-TEMPLATE", file, fmt::format("there are more than {} templates", kMostTemplates),
                       "a folder with one template, or a few", {Change("data.template", "FILE")});
    }
    result.by_name.insert_or_assign(name, jinja::Template(text, file));
    if (result.source.empty()) result.source = file;
  }

  void read_tokens(const Json& config) {
    constexpr std::array<const char*, 7> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                                "pad_token", "cls_token", "mask_token"};
    for (const char* name : kNames) {
      const auto found = config.find(name);
      if (found == config.end()) continue;
      const Json& text = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
      std::erase_if(result.tokens, [&](const auto& each) { return each.first == name; });
      if (text.is_string()) result.tokens.emplace_back(name, text.get<std::string>());
    }
  }

  void read_files(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (is_there(folder / "chat_template.jinja")) read_file(folder / "chat_template.jinja", "default");
    for (const auto& entry : std::filesystem::directory_iterator(folder / "chat_templates", ignored)) {
      if (entry.path().extension() == ".jinja") read_file(entry.path(), entry.path().stem().string());
    }
  }

  void read_key(const Json& value, const std::string& file) {
    const auto refuse = [&] {
      return data_error("E-CHAT-TEMPLATE", file, "its chat_template is no text and no list of names and templates",
                        "\"chat_template\": \"...\", or [{\"name\": \"default\", \"template\": \"...\"}]",
                        {Change("data.template", "FILE")});
    };
    if (value.is_null()) return;
    if (value.is_string()) return add("default", value.get<std::string>(), file + ", chat_template");
    if (!value.is_array()) throw refuse();
    for (const Json& each : value) {
      const Json name = each.is_object() ? each.value("name", Json()) : Json();
      const Json text = each.is_object() ? each.value("template", Json()) : Json();
      if (!name.is_string() || !text.is_string()) throw refuse();
      add(name.get<std::string>(), text.get<std::string>(), fmt::format("{}, chat_template {}", file, name.get<std::string>()));
    }
  }

  std::string shown_;
};

}  // namespace

const jinja::Template& ChatTemplates::choose(bool tools) const {
  if (const auto found = by_name.find("tool_use"); tools && found != by_name.end()) return found->second;
  if (const auto found = by_name.find("default"); found != by_name.end()) return found->second;
  std::string names;
  for (const auto& [name, each] : by_name) names += (names.empty() ? "" : ", ") + name;
  throw data_error("E-CHAT-TEMPLATE", source, fmt::format("its chat templates are {}", names), "one with the name default",
                   {Change("data.template", "FILE")});
}

std::optional<ChatTemplates> load_chat_templates(const std::filesystem::path& tokenizer, const std::filesystem::path& file) {
  std::error_code ignored;
  const bool gguf = is_gguf(tokenizer);
  Loader loader(gguf ? tokenizer.string() : "");
  if (gguf) {
    const TemporaryFolder folder;
    write_gguf_tokenizer(GgufFile::open(tokenizer), folder.path(), true);
    loader.read_folder(folder.path(), file.empty());
  } else {
    const bool folder = std::filesystem::is_directory(tokenizer, ignored);
    loader.read_folder(folder ? tokenizer : tokenizer.parent_path(), file.empty());
  }
  if (!file.empty()) {
    Loader own("");
    own.read_file(file, "default");
    loader.result.by_name = std::move(own.result.by_name);
    loader.result.source = own.result.source;
  }
  if (loader.result.by_name.empty()) return {};
  return std::move(loader.result);
}

}  // namespace plimsoll
