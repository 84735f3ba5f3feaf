#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/shown_text.h"
#include "data/conversations.h"
#include "prepare/data_files.h"

namespace plimsoll {
namespace {

// The text of a run of tokens. Decoding holds the texts of all its tokens in memory, so it takes the first 65,536 alone; each
// further token is decoded by itself.
void add_text(std::span<const Token> tokens, const Tokenizer& tokenizer, std::string& text) {
  constexpr std::size_t kMost = 1 << 16;
  text += tokenizer.decode(tokens.first(std::min(tokens.size(), kMost)), /*skip_special=*/false);
  for (const Token token : tokens.subspan(std::min(tokens.size(), kMost))) {
    text += tokenizer.is_special(token) ? tokenizer.added_text(token) : tokenizer.inside(token);
  }
}

// A list of numbers as JSON text, without a JSON value for each number.
template <class Number>
void add_list(const std::vector<Number>& numbers, std::string& text) {
  text += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ",", numbers[i]);
  text += ']';
}

// A sample's text with marks around the trained parts. Parts are runs of tokens, as a single token need not be a whole character.
std::string marked_text(const EncodedSample& sample, const Tokenizer& tokenizer, bool colours) {
  const std::string open = colours ? "\x1b[32m" : "⟦", close = colours ? "\x1b[0m" : "⟧";
  std::string text;
  for (std::size_t begin = 0; begin < sample.tokens.size();) {
    std::size_t end = begin;
    while (end < sample.tokens.size() && sample.trained[end] == sample.trained[begin]) ++end;
    std::string part;
    add_text(std::span(sample.tokens).subspan(begin, end - begin), tokenizer, part);
    text += sample.trained[begin] != 0 ? open + shown_text(part) + close : shown_text(part);
    begin = end;
  }
  return text;
}

// A remark on begin and end tokens that the text already has. They are not added a second time.
std::string own_text(const EncodedSample& sample) {
  if (!sample.own_begin && !sample.own_end) return "";
  const char* what = sample.own_begin && sample.own_end ? "begin and end tokens"
                     : sample.own_begin                 ? "a begin token"
                                                        : "an end token";
  return fmt::format("; it has {} of its own, none is added", what);
}

// Samples that are objects of numbers: one a line, or JSON.
void print_objects(const std::vector<nlohmann::json>& samples, std::string_view what, bool as_json) {
  if (as_json) return print_json(nlohmann::json{{"samples", samples}, {"schema", "plimsoll.samples/1"}});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::string facts;
    for (const auto& [name, value] : samples[i].items()) {
      const std::string number = value.is_number_float() ? fmt::format("{:.4f}", value.get<double>()) : value.dump();
      facts += fmt::format("{}{} {}", facts.empty() ? "" : ", ", name, number);
    }
    print_text(fmt::format("{} {}: {}\n", what, i, facts));
  }
}

}  // namespace

int run_data_show(const DataShowArguments& arguments) {
  RunSettings settings = read_settings_of(arguments.config);
  const Config config = read_settings_only(settings);
  const DataKind& kind = data_kind(config);
  if (kind.show != nullptr) {
    print_objects(kind.show(data_request(config, cache_folder()), arguments.samples), kind.words.sample, arguments.json);
    return 0;
  }
  if (!kind.renders) {
    throw config_error(
        "E-CONFIG-CONFLICT", "data.format", fmt::format("samples of format \"{}\" are {}", config.data.format, kind.words.are),
        "JSON samples, data.format = \"chat\"", {Remedy::of_command("tokenize TEXT", {{"command.tokenizer", "FOLDER"}})});
  }
  const bool colours = !arguments.json && colour_allowed_in_output();
  std::int64_t shown = 0;
  std::string samples;  // JSON text
  show_samples(
      sample_request(data_request(config), config.data.train, 0),
      [&](const ChatSample& sample, const EncodedSample& encoded, const Tokenizer& tokenizer) {
        if (arguments.json) {
          std::string text;
          add_text(encoded.tokens, tokenizer, text);
          const auto quoted = [](std::string_view each) {
            return nlohmann::json(each).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
          };
          samples += fmt::format(R"({}{{"format":{},"ids":)", samples.empty() ? "" : ",", quoted(name_of(sample.format)));
          add_list(encoded.tokens, samples);
          samples += fmt::format(R"(,"text":{},"trained":)", quoted(text));
          add_list(encoded.trained, samples);
          samples += fmt::format(R"(,"own_begin":{},"own_end":{},"where":{}}})", encoded.own_begin, encoded.own_end,
                                 quoted(sample.where()));
        } else {
          print_text(fmt::format("{}--- {}: {}, {} tokens, {} trained on{}{}\n", shown == 0 ? "" : "\n",
                                 shown_text(sample.where(), ShownAs::line), name_of(sample.format), encoded.tokens.size(),
                                 encoded.trained_tokens(), shown > 0 || colours ? "" : ", between ⟦ and ⟧", own_text(encoded)));
          print_marked(marked_text(encoded, tokenizer, colours) + "\n");
        }
        return ++shown < arguments.samples;
      });
  if (arguments.json) {
    print_document(fmt::format(R"({{"samples":[{}],"schema":"plimsoll.samples/1"}})"
                               "\n",
                               samples));
  }
  return 0;
}

}  // namespace plimsoll
