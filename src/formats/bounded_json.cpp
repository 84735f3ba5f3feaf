#include "formats/bounded_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/file.h"
#include "formats/json_events.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Passes on the library's events and counts them. Too many values, or too deep a nesting, end the text.
class CountedEvents : public nlohmann::json_sax<Json> {
 public:
  CountedEvents(JsonEvents& to, const JsonLimits& limits) : to_(to), limits_(limits) {}

  // The message of the limit that was exceeded; empty: none was.
  std::string problem;

  bool null() override { return counts() && to_.null(); }
  bool boolean(bool value) override { return counts() && to_.boolean(value); }
  bool number_integer(number_integer_t value) override { return counts() && to_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return counts() && to_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override { return counts() && to_.number_float(value, text); }
  bool string(string_t& text) override { return counts() && to_.string(text); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override { return to_.key(text); }
  bool start_object(std::size_t) override { return enters() && to_.start_object(); }
  bool start_array(std::size_t) override { return enters() && to_.start_array(); }
  bool end_object() override {
    --depth_;
    return to_.end_object();
  }
  bool end_array() override {
    --depth_;
    return to_.end_array();
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool counts() {
    if (++values_ > limits_.values) problem = fmt::format("it has more than {} values", limits_.values);
    return problem.empty();
  }
  bool enters() {
    if (++depth_ > limits_.depth) problem = fmt::format("it is nested deeper than {}", limits_.depth);
    return problem.empty() && counts();
  }

  JsonEvents& to_;
  const JsonLimits& limits_;
  std::int64_t values_ = 0;
  int depth_ = 0;
};

// Builds the value. The library's own builder compares each key of an ordered object with all earlier keys.
template <class Tree>
class Builder : public JsonEvents {
 public:
  Tree result;

  bool null() override { return put(Tree()); }
  bool boolean(bool value) override { return put(Tree(value)); }
  bool number_integer(std::int64_t value) override { return put(Tree(value)); }
  bool number_unsigned(std::uint64_t value) override { return put(Tree(value)); }
  bool number_float(double value, const std::string&) override { return put(Tree(value)); }
  bool string(std::string& text) override { return put(Tree(text)); }
  bool start_object() override { return open(Tree::value_t::object); }
  bool start_array() override { return open(Tree::value_t::array); }
  bool key(std::string& text) override {
    levels_.back().key = text;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

 private:
  static constexpr bool kOrdered = std::is_same_v<Tree, OrderedJson>;

  struct Level {
    Tree tree;
    std::string key;
    std::unordered_map<std::string, std::size_t> places;  // of the keys of an ordered object
  };

  bool put(Tree value) {
    if (levels_.empty()) {
      result = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.tree.is_array()) {
      level.tree.push_back(std::move(value));
    } else if constexpr (kOrdered) {
      auto& pairs = static_cast<typename Tree::object_t::Container&>(level.tree.template get_ref<typename Tree::object_t&>());
      const auto [place, is_new] = level.places.emplace(level.key, pairs.size());
      if (is_new) {
        pairs.emplace_back(std::move(level.key), std::move(value));
      } else {
        pairs[place->second].second = std::move(value);
      }
    } else {
      level.tree[level.key] = std::move(value);
    }
    return true;
  }

  bool open(typename Tree::value_t kind) {
    levels_.push_back({Tree(kind), {}, {}});
    return true;
  }

  bool close() {
    Tree tree = std::move(levels_.back().tree);
    levels_.pop_back();
    return put(std::move(tree));
  }

  std::vector<Level> levels_;
};

// The place at which a text stops being JSON, as text for users: "line 3, column 5: unexpected '}'". Empty for valid JSON.
std::string json_fault(std::string_view text) {
  std::string fault;
  try {
    const auto keeps_nothing = [](int, Json::parse_event_t, const Json&) { return false; };
    [[maybe_unused]] const Json all = Json::parse(text.begin(), text.end(), keeps_nothing);
    return fault;
  } catch (const Json::exception& error) {
    fault = error.what();
  }
  // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while ...": the part after "at" counts.
  const std::size_t at = fault.find(" at ");
  if (at != std::string::npos) fault.erase(0, at + 4);
  std::ranges::replace_if(
      fault, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  constexpr std::size_t kMost = 160;
  return fault.size() <= kMost ? fault : fault.substr(0, kMost) + "...";
}

template <class Tree>
Tree parse(std::string_view text, const JsonLimits& limits, std::string& fault) {
  Builder<Tree> builder;
  if (send_json_events(text, limits, builder, fault)) return std::move(builder.result);
  return Tree(Tree::value_t::discarded);
}

template <class Tree>
Tree read_object(const std::filesystem::path& path, const JsonLimits& limits, const std::string& code,
                 const std::string& expected) {
  const std::string text = read_text(path, limits.bytes, code);
  std::string fault;
  Tree json = parse<Tree>(text, limits, fault);
  if (fault.starts_with("line ")) fault = "it is not JSON: " + fault;
  if (fault.empty() && !json.is_object()) fault = "it is not a JSON object";
  if (!fault.empty()) throw data_error(code, path.string(), fault, expected);
  return json;
}

}  // namespace

bool send_json_events(std::string_view text, const JsonLimits& limits, JsonEvents& events, std::string& fault) {
  fault.clear();
  if (std::ssize(text) > limits.bytes) {
    fault = fmt::format("it has {} bytes, and at most {} are read", text.size(), limits.bytes);
    return false;
  }
  CountedEvents counted(events, limits);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &counted)) return true;
  fault = counted.problem;
  // The second parse finds the place of the fault and keeps nothing. Without a fault the receiver of the events has ended the
  // text.
  if (fault.empty()) fault = json_fault(text);
  return false;
}

Json parse_json(std::string_view text, const JsonLimits& limits, std::string& fault) { return parse<Json>(text, limits, fault); }

OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits, std::string& fault) {
  return parse<OrderedJson>(text, limits, fault);
}

Json parse_json(std::string_view text, const JsonLimits& limits) {
  std::string fault;
  Json json = parse<Json>(text, limits, fault);
  if (!fault.empty()) throw std::invalid_argument(fault);
  return json;
}

Json read_json_object(const std::filesystem::path& path, const JsonLimits& limits, const std::string& code,
                      const std::string& expected) {
  return read_object<Json>(path, limits, code, expected);
}

OrderedJson read_ordered_json_object(const std::filesystem::path& path, const JsonLimits& limits, const std::string& code,
                                     const std::string& expected) {
  return read_object<OrderedJson>(path, limits, code, expected);
}

Json read_own_object(const std::filesystem::path& path, const JsonLimits& limits, std::string_view schema, std::string_view kind,
                     const std::function<Error(const std::string&)>& refuse) {
  std::string text;
  try {
    text = read_text(path, limits.bytes, "E-IO-READ");
  } catch (const Error& error) {
    throw refuse(error.message);
  }
  std::string fault;
  Json object = parse<Json>(text, limits, fault);
  if (!fault.empty()) throw refuse(fault);
  if (!object.is_object() || object.value("schema", Json()) != schema) throw refuse(fmt::format("it is not {}", kind));
  return object;
}

}  // namespace plimsoll
