#include "config/model_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "formats/weights_folder.h"
#include "models/all.h"

namespace plimsoll {

void set_init(Config& c, const Setting& s) {
  if (text(s) == "random" || text(s).empty()) {
    c.model.init.clear();
    return;
  }
  c.model.init = weights_folder(path(s));
  c.model.config = read_model(c.model.init);
  c.model.context = facts_of(c.model.config).positions;
}

void set_preset(Config& c, const Setting& s) {
  try {
    c.model.config = model_preset(text(s));
  } catch (const Error& error) {
    throw config_error(error.code, s.where, error.message, error.expected, error.remedies);
  }
  c.model.preset = text(s);
  c.model.context = facts_of(c.model.config).positions;
}

void set_kind(Config& c, const Setting& s) {
  std::vector<std::string_view> kinds;
  for (const Family* family : families()) kinds.push_back(family->kind);
  const Family& family = *families()[choice(s, kinds)];
  if (c.model.config.empty()) c.model.config = family.defaults();
  if (&c.model.config.family() == &family) return;
  throw config_error("E-CONFIG-CONFLICT", s.where,
                     fmt::format("{} is \"{}\", and the model is a {}", s.name, family.kind, c.model.config.family().kind),
                     "a preset or a folder of that kind, or neither");
}

std::string kind_text(const Config& c) { return c.model.config.empty() ? "" : toml_text(c.model.config.family().kind); }

namespace {

const ModelKey* find_model_key(const Family& family, std::string_view name) {
  const std::span<const ModelKey> keys = family.keys();
  const auto found = std::ranges::find(keys, name, &ModelKey::name);
  return found == keys.end() ? nullptr : &*found;
}

// Sets a key of the chosen model; without one, of the first family that has the key.
void set_model_key(Config& c, const Setting& s, std::string_view name) {
  for (const Family* family : families()) {
    if (c.model.config.empty() && find_model_key(*family, name) != nullptr) c.model.config = family->defaults();
  }
  const Family& family = c.model.config.family();
  if (const ModelKey* key = find_model_key(family, name)) {
    c.model.config = key->set(c.model.config, s);
    return;
  }
  std::vector<std::string_view> names;
  for (const ModelKey& key : family.keys()) names.push_back(key.name);
  throw config_error("E-CONFIG-KEY", s.where, fmt::format("{} is no key of a {}", s.name, family.kind),
                     "its keys are " + joined(names));
}

// Absent if a folder brings it.
std::string model_key_text(const Config& c, std::string_view name) {
  const ModelKey* key = c.model.config.empty() ? nullptr : find_model_key(c.model.config.family(), name);
  if (key == nullptr) return "";
  const bool of_folder = key->of_folder && !(key->of_new_head && facts_of(c.model.config).new_head);
  return of_folder && !c.model.init.empty() ? "" : key->text(c.model.config);
}

ConfigKey key_of(const ModelKey& key) {
  static std::deque<std::string> names;
  const std::string_view name = names.emplace_back(fmt::format("model.{}", key.name));
  const std::string_view leaf = leaf_of(name);
  return {name,
          key.on_resume,
          key.comment,
          key.example,
          {[leaf](Config& c, const Setting& s) { set_model_key(c, s, leaf); },
           [leaf](const Config& c) { return model_key_text(c, leaf); }}};
}

}  // namespace

std::string_view preset_comment() {
  static const std::string comment = "a shape by name: " + joined(model_preset_names());
  return comment;
}

std::vector<ConfigKey> model_keys(bool sizes) {
  std::vector<ConfigKey> keys;
  for (const Family* family : families()) {
    for (const ModelKey& key : family->keys()) {
      const auto same = [&](const ConfigKey& other) { return leaf_of(other.name) == key.name; };
      if (key.size == sizes && std::ranges::none_of(keys, same)) keys.push_back(key_of(key));
    }
  }
  return keys;
}

}  // namespace plimsoll
