#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/settings.h"
#include "prepare/setup.h"

namespace plimsoll {
namespace {

// A sample's text, with what is trained on between marks: runs of tokens, as single ones need not be whole characters.
std::string marked_text(const EncodedSample& sample, const Tokenizer& tokenizer, bool colours) {
  const std::string open = colours ? "\x1b[32m" : "⟦", close = colours ? "\x1b[0m" : "⟧";
  std::string text;
  for (std::size_t begin = 0; begin < sample.tokens.size();) {
    std::size_t end = begin;
    while (end < sample.tokens.size() && sample.trained[end] == sample.trained[begin]) ++end;
    const std::string part = tokenizer.decode(std::span(sample.tokens).subspan(begin, end - begin), /*skip_special=*/false);
    text += sample.trained[begin] != 0 ? open + part + close : part;
    begin = end;
  }
  return text;
}

}  // namespace

int run_data_show(const DataShowArguments& arguments) {
  RunSettings settings = read_settings_of(arguments.config);
  const Config config = read_settings_only(settings);
  if (!has_samples(config)) {
    throw config_error("E-CONFIG-CONFLICT", "data.format",
                       fmt::format("samples of format \"{}\" are cut from one stream of tokens", config.data.format),
                       "JSON samples, data.format = \"chat\"", {"plimsoll tokenize --tokenizer FOLDER TEXT"});
  }
  const bool colours = !arguments.json && colour_allowed_in_output();
  std::int64_t shown = 0;
  nlohmann::json samples = nlohmann::json::array();
  show_samples(sample_request(config, config.data.train, 0, {}), [&](const ChatSample& sample, const EncodedSample& encoded,
                                                                     const Tokenizer& tokenizer) {
    const std::string text = marked_text(encoded, tokenizer, colours);
    if (arguments.json) {
      samples.push_back({{"where", sample.where()},
                         {"format", name_of(sample.format)},
                         {"ids", encoded.tokens},
                         {"trained", encoded.trained},
                         {"text", tokenizer.decode(encoded.tokens, /*skip_special=*/false)}});
    } else {
      fmt::print("{}--- {}: {}, {} tokens, {} trained on{}\n{}\n", shown == 0 ? "" : "\n", sample.where(), name_of(sample.format),
                 encoded.tokens.size(), encoded.trained_tokens(), shown > 0 || colours ? "" : ", between ⟦ and ⟧", text);
    }
    return ++shown < arguments.samples;
  });
  if (arguments.json) fmt::print("{}\n", nlohmann::json{{"schema", "plimsoll.samples/1"}, {"samples", samples}}.dump());
  return 0;
}

}  // namespace plimsoll
