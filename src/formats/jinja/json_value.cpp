#include "formats/jinja/json_value.h"

#include <fmt/format.h>

#include <utility>

#include "formats/json_events.h"

namespace plimsoll::jinja {
namespace {

// A value takes up to 150 bytes in addition to its text.
constexpr JsonLimits kLimits{.bytes = std::int64_t{64} << 20, .values = 200'000, .depth = 100};

class Builder : public JsonEvents {
 public:
  explicit Builder(Origin origin) : origin_(origin) {}

  bool null() override { return put(None{}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(static_cast<std::int64_t>(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (std::in_range<std::int64_t>(value)) return put(static_cast<std::int64_t>(value));
    return put(BigInteger{std::make_shared<const std::string>(fmt::to_string(value))});
  }
  bool number_float(double value, const std::string& written) override {
    if (written.find_first_of(".eE") != std::string::npos) return put(value);
    return put(BigInteger{std::make_shared<const std::string>(written)});
  }
  // Copies the text, because the parser's own text has up to twice the capacity.
  bool string(std::string& text) override { return put(Text(std::string(text), origin_)); }
  bool start_object() override { return open(false); }
  bool start_array() override { return open(true); }
  bool key(std::string& text) override {
    levels_.back().key = Text(std::move(text), origin_);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  Value result;

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
    levels_.push_back({array, {}, {}, {}});
    return true;
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
  std::string fault;
  if (send_json_events(text, kLimits, builder, fault)) return {std::move(builder.result), ""};
  return {Value(), fault};
}

}  // namespace plimsoll::jinja
