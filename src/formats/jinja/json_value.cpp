#include "formats/jinja/json_value.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "formats/json_fault.h"

namespace plimsoll::jinja {
namespace {

constexpr std::size_t kMostDepth = 100;

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(Origin origin) : origin_(origin) {}

  bool null() override { return put(None{}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(static_cast<std::int64_t>(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<std::int64_t>(value)) return put(static_cast<std::int64_t>(value));
    return put(BigInteger{std::make_shared<const std::string>(fmt::to_string(value))});
  }
  bool number_float(number_float_t value, const string_t& written) override {
    if (written.find_first_of(".eE") != std::string::npos) return put(value);
    return put(BigInteger{std::make_shared<const std::string>(written)});
  }
  bool string(string_t& text) override { return put(Text(std::move(text), origin_)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool key(string_t& text) override {
    levels_.back().key = Text(std::move(text), origin_);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

  Value result;
  bool too_deep = false;

 private:
  struct Level {
    bool array = false;
    std::vector<Value> items;
    Dict dict;
    Value key;
  };

  bool put(Value value) {
    if (levels_.empty()) {
      result = std::move(value);
    } else if (Level& level = levels_.back(); level.array) {
      level.items.push_back(std::move(value));
    } else {
      level.dict.set(std::exchange(level.key, Value()), std::move(value));
    }
    return true;
  }

  bool open(bool array) {
    too_deep = levels_.size() == kMostDepth;
    if (!too_deep) levels_.push_back({array, {}, {}, {}});
    return !too_deep;
  }

  bool close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    return level.array ? put(make_list(std::move(level.items))) : put(std::move(level.dict));
  }

  Origin origin_;
  std::vector<Level> levels_;
};

}  // namespace

JsonResult parse_json(std::string_view text, Origin origin) {
  Builder builder(origin);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return {std::move(builder.result), ""};
  if (builder.too_deep) return {Value(), fmt::format("it is nested deeper than {}", kMostDepth)};
  return {Value(), json_fault(text)};
}

}  // namespace plimsoll::jinja
