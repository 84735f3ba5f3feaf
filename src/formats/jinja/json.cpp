#include "formats/jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/visit.h"
#include "formats/jinja/text_functions.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Evaluator& evaluator, const JsonStyle& style) : evaluator_(evaluator), style_(style) {}

  void write(const Value& value, std::size_t level) {
    match(
        value.any(), [&](const Undefined&) { refuse(value); }, [&](const None&) { put("null"); },
        [&](bool truth) { put(truth ? "true" : "false"); }, [&](std::int64_t number) { put(fmt::to_string(number)); },
        [&](double number) { put(real(number)); }, [&](const BigInteger& big) { put(*big.digits); },
        [&](const std::shared_ptr<const Text>& text) { string(*text); },
        [&](const std::shared_ptr<const List>& list) {
          if (list->kind == ListKind::generator) refuse(value);
          array(*list, level);
        },
        [&](const std::shared_ptr<const Dict>& dict) { object(*dict, level); }, [&](NameSpace* const&) { refuse(value); },
        [&](const std::shared_ptr<const Callable>&) { refuse(value); },
        [&](const std::shared_ptr<LoopState>&) { refuse(value); });
  }

  Text out;

 private:
  [[noreturn]] void refuse(const Value& value) {
    evaluator_.fail(fmt::format("Object of type {} is not JSON serializable", value.type()));
  }

  void put(std::string_view text) { out.append(text, Origin::of_template); }

  static std::string real(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  std::string escaped(std::string_view text) const {
    std::string written;
    written.reserve(text.size() + text.size() / 16);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const auto c = static_cast<std::uint32_t>(next_character(text, at));
      constexpr std::string_view kFrom = "\"\\\n\r\t\b\f", kTo = "\"\\nrtbf";
      const std::size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (known != std::string_view::npos) {
        written += '\\';
        written += kTo[known];
      } else if (c < 0x20 || (style_.ascii && c > 0x7F && c < 0x10000)) {
        written += fmt::format("\\u{:04x}", c);
      } else if (style_.ascii && c >= 0x10000) {
        written += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        written += text.substr(begin, at - begin);
      }
    }
    return written;
  }

  void string(const Text& text) {
    put("\"");
    out.append(each_stretch_of(text, [&](std::string_view stretch) { return escaped(stretch); }));
    put("\"");
  }

  void line(std::size_t level) {
    if (!style_.indent) return;
    evaluator_.charge_memory(level * style_.indent->size());
    put("\n");
    for (std::size_t i = 0; i < level; ++i) put(*style_.indent);
  }

  void array(const List& list, std::size_t level) {
    if (list.items.empty()) return put("[]");
    put("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.between);
      line(level + 1);
      write(list.items[i], level + 1);
    }
    line(level);
    put("]");
  }

  Text key_text(const Value& key) {
    if (const Text* text = key.text()) return *text;
    if (const bool* truth = key.get<bool>()) return Text(*truth ? "true" : "false");
    if (key.is_none()) return Text("null");
    if (const double* number = key.get<double>()) return Text(real(*number));
    if (!key.is_number()) evaluator_.fail(fmt::format("keys must be str, int, float, bool or None, not {}", key.type()));
    return text_of(key);
  }

  void object(const Dict& dict, std::size_t level) {
    if (dict.size() == 0) return put("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items()) items.push_back(&item);
    if (style_.sort_keys) {
      std::ranges::stable_sort(items,
                               [&](const auto* a, const auto* b) { return evaluator_.order(a->first, b->first, "<") < 0; });
    }
    put("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.between);
      line(level + 1);
      string(key_text(items[i]->first));
      put(style_.behind_key);
      write(items[i]->second, level + 1);
    }
    line(level);
    put("}");
  }

  Evaluator& evaluator_;
  const JsonStyle& style_;
};

}  // namespace

Text to_json(Evaluator& evaluator, const Value& value, const JsonStyle& style) {
  evaluator.charge_memory(value.weight());
  JsonWriter writer(evaluator, style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace plimsoll::jinja
