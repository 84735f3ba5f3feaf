// One part of a tokenizer.json: checked access to its keys. Every fault is E-TOKENIZER with the name of the part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The most steps of a Sequence.
inline constexpr std::size_t kMostSteps = 64;
// The most bytes of a text of this size after all steps.
inline constexpr std::size_t most_grown(std::size_t bytes) { return (std::size_t{1} << 20) + 64 * bytes; }
// E-TOKENIZER if `bytes` exceeds `most`.
void check_grown(std::size_t bytes, std::size_t most, const std::string& where);

class Component {
 public:
  // Keeps a reference to the JSON. `where`: the file and the part.
  Component(const nlohmann::json& json, std::string where);

  const std::string& where() const { return where_; }
  const std::string& type() const { return type_; }
  // A text, a truth value, a count. Without a fallback the key is required; with one it may be absent or null.
  std::string text(const char* key) const;
  std::string text(const char* key, std::string fallback) const;
  bool flag(const char* key) const;
  bool flag(const char* key, bool fallback) const;
  std::optional<bool> maybe(const char* key) const;
  std::uint64_t count(const char* key) const;
  // A text of one character.
  char32_t character(const char* key) const;
  // The elements of a list as components.
  std::vector<Component> list(const char* key) const;
  const nlohmann::json& json() const { return json_; }

  [[noreturn]] void refuse(const std::string& why) const;
  // Refuses the component's type.
  [[noreturn]] void refuse_type() const;

 private:
  const nlohmann::json& at(const char* key) const;

  const nlohmann::json& json_;
  std::string where_, type_;
};

}  // namespace plimsoll
