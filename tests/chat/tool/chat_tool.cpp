// Renders and encodes samples for tests/chat/compare.py:
//   chat_tool TOKENIZER [--template FILE] [--loss last] < samples.jsonl
// For each line of the input one of the output: {"text", "ids", "trained", "ranges"}, or {"error", "code"}. The clock stands at
// 1,700,000,000 seconds (UTC).
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/chat_encoder.h"
#include "data/conversation.h"
#include "data/document_encoder.h"
#include "formats/chat_template.h"
#include "formats/gguf/gguf_file.h"

namespace {

using namespace plimsoll;
using Json = nlohmann::ordered_json;

Json answer(ChatEncoder& encoder, Tokenizer& tokenizer, const std::string& line, std::int64_t number) {
  try {
    ChatSample where;
    where.file = "stdin";
    where.line = number;
    const ChatSample sample = parse_sample(line, where);
    const EncodedSample encoded = encoder.encode(sample);
    Json out = {{"text", sample.is_chat() ? encoder.render(sample) : sample.prompt + sample.completion},
                {"ids", encoded.tokens},
                {"trained", encoded.trained}};
    if (sample.is_chat()) {
      Json ranges = Json::array();
      const std::string text = out["text"].get<std::string>();
      for (const ByteRange& range : tokenizer.encode_traced(text).ranges) ranges.push_back({range.begin, range.end});
      out["ranges"] = std::move(ranges);
    }
    return out;
  } catch (const Error& error) {
    return {{"error", error.message}, {"code", error.code}, {"where", error.where}};
  }
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  std::string file;
  ChatOptions options;
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--template") file = arguments[i + 1];
    if (arguments[i] == "--loss" && arguments[i + 1] == "last") options.loss = ChatLoss::last;
  }
  try {
    Tokenizer tokenizer = Tokenizer::load(arguments.at(0));
    const std::optional<ChatTemplates> templates = load_chat_templates(arguments.at(0), file);
    const std::time_t when = 1'700'000'000;
    gmtime_r(&when, &options.now);
    if (!is_gguf(arguments.at(0))) options.end = end_of_document(tokenizer, arguments.at(0), {});
    ChatEncoder encoder(tokenizer, templates ? &*templates : nullptr, options);
    std::string line;
    for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
      std::cout << answer(encoder, tokenizer, line, number).dump() << "\n";
    }
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
