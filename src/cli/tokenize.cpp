#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "formats/file.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostBytes = 256 << 20;

// Token ids separated by white space.
std::vector<Token> read_ids(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Token> ids;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos; at = text.find_first_not_of(kSpace, at)) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    Token id = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || rest != word.data() + word.size()) {
      throw config_error("E-USAGE", "tokenize", fmt::format("'{}' is no id of a token", word.substr(0, 40)),
                         "with --decode: ids of tokens, separated by spaces");
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

}  // namespace

int run_tokenize(const TokenizeArguments& arguments) {
  Tokenizer tokenizer = Tokenizer::load(weights_folder(arguments.tokenizer));
  const std::string input = arguments.file.empty() ? arguments.text : read_text(arguments.file, kMostBytes, "E-DATA-TEXT");
  if (arguments.decode) {
    const std::string text = tokenizer.decode(read_ids(input), !arguments.keep_special);
    if (arguments.json) {
      print_json(nlohmann::json{{"schema", "plimsoll.tokens/1"}, {"text", text}});
    } else {
      output_is_terminal() ? print_text(text + "\n") : print_marked(text + "\n");
    }
    return 0;
  }
  std::vector<Token> ids;
  try {
    ids = tokenizer.encode(input, arguments.no_special ? SpecialTokens::leave_out : SpecialTokens::insert);
  } catch (const Error& error) {
    if (error.code != "E-DATA-TEXT") throw;
    throw data_error(error.code, arguments.file.empty() ? "TEXT" : arguments.file, error.message, error.expected, error.remedies);
  }
  std::string line;
  for (const Token id : ids) line += fmt::format("{}{}", line.empty() ? "" : arguments.json ? "," : " ", id);
  print_marked(arguments.json ? fmt::format("{{\"schema\":\"plimsoll.tokens/1\",\"ids\":[{}]}}\n", line) : line + "\n");
  return 0;
}

}  // namespace plimsoll
