#include "weights/origin.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <system_error>

#include "models/family.h"
#include "weights/adapter_weights.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 7> kElsewhere{
    "context", "vocab", "byte_vocabulary", "initializer_range", "attention_dropout", "residual_dropout", "embedding_dropout"};

// A list in parentheses is one value.
std::map<std::string, std::string> fields_of(const std::string& text) {
  std::map<std::string, std::string> fields;
  int depth = 0;
  for (std::size_t begin = 0, at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '(') ++depth;
    if (at < text.size() && text[at] == ')') --depth;
    if (at < text.size() && (depth > 0 || !text.substr(at, 2).starts_with(", "))) continue;
    const std::string field = text.substr(begin, at - begin);
    const std::size_t equals = std::min(field.find('='), field.size());
    fields[field.substr(0, equals)] = field.substr(std::min(equals + 1, field.size()));
    begin = at + 2;
  }
  return fields;
}

}  // namespace

std::string text_of_model(const ModelConfig& model) { return fmt::format("kind={}, {}", model.family().kind, model.text()); }

std::string whole_path(const std::filesystem::path& path) {
  if (path.empty()) return {};
  std::error_code gone;
  const std::filesystem::path absolute = std::filesystem::absolute(path, gone);
  return (gone ? path : absolute).lexically_normal().string();
}

Origin origin_of(const ModelConfig& model, const std::filesystem::path& init, const std::filesystem::path& adapter) {
  return {
      text_of_model(model), whole_path(init), {}, whole_path(adapter), adapter.empty() ? std::string() : adapter_hash(adapter)};
}

std::vector<std::string> model_differences(const std::string& before, const std::string& after) {
  const std::map<std::string, std::string> now = fields_of(after);
  std::map<std::string, std::string> all = fields_of(before);
  const std::map<std::string, std::string> then = all;
  all.insert(now.begin(), now.end());
  const auto shown = [](const std::map<std::string, std::string>& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string("nothing") : found->second;
  };
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) {
    if (std::ranges::find(kElsewhere, name) != kElsewhere.end()) continue;
    const std::string old = shown(then, name), fresh = shown(now, name);
    if (old != fresh) lines.push_back(fmt::format("{}: {} -> {}", name, old, fresh));
  }
  return lines;
}

}  // namespace plimsoll
