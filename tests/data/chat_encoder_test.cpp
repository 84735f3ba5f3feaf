// Samples as tokens and the tokens that are trained: against transformers (tests/chat/make_goldens.py), and rule by rule.
#include "data/chat_encoder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "data/dialogue.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kChat = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/chat";

// The small tokenizer with a template.
struct Encoded {
  explicit Encoded(std::string_view source, ChatOptions options = {}) {
    std::filesystem::copy_file(kChat / "tokenizer.json", folder / "tokenizer.json");
    write_raw(folder / "tokenizer_config.json", R"({"bos_token": "<bos>", "eos_token": {"content": "<eos>"}})");
    write_raw(folder / "chat_template.jinja", source);
    tokenizer.emplace(Tokenizer::load(folder.path()));
    templates = load_chat_templates(folder.path());
    const std::time_t when = 1'700'000'000;
    gmtime_r(&when, &options.now);
    encoder.emplace(*tokenizer, &*templates, options);
  }

  EncodedSample encode(std::string_view json) { return encoder->encode(parse(json)); }

  static ChatSample parse(std::string_view json) {
    ChatSample sample;
    sample.file = "data.jsonl";
    return parse_sample(json, sample);
  }

  // Trained tokens in brackets.
  std::string shown(const EncodedSample& sample) const {
    std::string out;
    for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
      const bool before = i > 0 && sample.trained[i - 1] != 0, now = sample.trained[i] != 0;
      if (now != before) out += now ? "[" : "]";
      out += tokenizer->decode({&sample.tokens[i], 1}, false);
    }
    return out + (!sample.trained.empty() && sample.trained.back() != 0 ? "]" : "");
  }
  std::string shown(std::string_view json) { return shown(encode(json)); }

  ScratchFolder folder;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplates> templates;
  std::optional<ChatEncoder> encoder;
};

// Marks, and the same without them.
constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr const char* kMarked =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"},
    {"role": "assistant", "content": "b"}]})";

TEST(ChatEncoder, MatchesTransformers) {
  std::ifstream file(kChat / "samples.json");
  const Json goldens = Json::parse(file);
  std::set<std::string> masked, refused;
  std::string name;
  std::optional<Encoded> encoded;
  ASSERT_GT(goldens["cases"].size(), 40u);
  for (const Json& each : goldens["cases"]) {
    if (each["template"] != name) {
      name = each["template"];
      encoded.emplace(read_raw(kChat / "templates" / (name + ".jinja")));
    }
    SCOPED_TRACE(name + ": " + each["sample"].dump());
    const ChatSample sample = Encoded::parse(each["sample"].dump());
    if (each.contains("fails")) {
      EXPECT_ERROR(encoded->encoder->render(sample), "E-CHAT-TEMPLATE", "data.jsonl:1");
      continue;
    }
    const std::string text = encoded->encoder->render(sample);
    EXPECT_EQ(text, each["text"].get<std::string>());
    Json ranges = Json::array();
    const TracedTokens traced = encoded->tokenizer->encode_traced(text);
    for (const ByteRange& range : traced.ranges) ranges.push_back({range.begin, range.end});
    EXPECT_EQ(ranges, each["ranges"]);
    EXPECT_EQ(Json(traced.tokens), each["ids"]);
    if (each["trained"].is_null()) {
      EXPECT_ERROR(encoded->encoder->encode(sample), "E-CHAT-MASK", "data.jsonl:1");
      refused.insert(name);
      continue;
    }
    const EncodedSample result = encoded->encoder->encode(sample);
    EXPECT_EQ(Json(result.tokens), each["ids"]);
    EXPECT_EQ(Json(result.trained), each["trained"]);
    EXPECT_GT(result.trained_tokens(), 0u);
    masked.insert(name);
  }
  EXPECT_GE(masked.size(), 9u);
  EXPECT_TRUE(refused.contains("qwen3"));  // it takes reasoning out of earlier turns
}

TEST(ChatEncoder, TrainsTheAssistantAndTheEndOfItsTurn) {
  for (const char* source : {kChatMl, kMarked}) {
    Encoded chat(source);
    const std::string end = source == kMarked ? "]\n" : "\n]";
    EXPECT_EQ(chat.shown(kTwoTurns), "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>" + end +
                                         "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>" + end);
    const EncodedSample sample = chat.encode(kTwoTurns);
    ASSERT_EQ(sample.turns.size(), 2u);
    EXPECT_EQ(sample.turns[0].message, 1u);
    EXPECT_EQ(sample.turns[1].message, 3u);
    for (const EncodedTurn& turn : sample.turns) {
      for (std::size_t i = turn.begin; i < turn.end; ++i) EXPECT_EQ(sample.trained[i], 1);
    }
    EXPECT_EQ(chat.encode(R"({"messages": [{"role": "user", "content": "q"}]})").trained_tokens(), 0u);
  }
}

TEST(ChatEncoder, LastTurnAndWeights) {
  for (const char* source : {kChatMl, kMarked}) {
    ChatOptions last;
    last.loss = ChatLoss::last;
    Encoded chat(source, last);
    const std::string end = source == kMarked ? "]\n" : "\n]";
    const std::string expected =
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nr<|im_end|>\n"
        "<|im_start|>assistant\n[b<|im_end|>" +
        end;
    EXPECT_EQ(chat.shown(kTwoTurns), expected);
    std::string more = kTwoTurns;
    more.insert(more.find(R"("b"})") + 4, R"(, {"role": "user", "content": "left out"})");
    EXPECT_EQ(chat.shown(more), expected);
    Encoded weighted(source);
    EXPECT_EQ(
        weighted.shown(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 1},
                             {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "weight": 0}]})"),
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>" + end +
            "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
    EXPECT_EQ(weighted.shown(R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                             {"role": "user", "content": "r"}], "completion": [{"role": "assistant", "content": "b"}]})"),
              expected);
  }
}

TEST(ChatEncoder, TemplatesThatBreakPrefixesAreNamed) {
  // Earlier turns lose what stands before </think>.
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content if loop.last else m.content.split('</think>')[-1] "
      "}}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  Encoded chat(source);
  const std::string json =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>t</think>a"},
      {"role": "user", "content": "r"}, {"role": "assistant", "content": "<think>u</think>b"}]})";
  EXPECT_ERROR(chat.encode(json), "E-CHAT-MASK", "turn 2");
  EXPECT_ERROR(chat.encode(json), "E-CHAT-MASK", "data.jsonl:1");
  EXPECT_ERROR(chat.encode(json), "E-CHAT-MASK", "data.template");
  ChatOptions last;
  last.loss = ChatLoss::last;
  EXPECT_NE(Encoded(source, last).shown(json).find("[<think>u</think>b<|im_end|>"), std::string::npos);
  EXPECT_ERROR(
      Encoded(
          "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}model: {% endif %}")
          .encode(kTwoTurns),
      "E-CHAT-MASK", "generation prompt");
  EXPECT_ERROR(Encoded("{{ raise_exception('no') if add_generation_prompt }}{% for m in messages %}{{ m.content }}{% endfor %}")
                   .encode(kTwoTurns),
               "E-CHAT-MASK", "turn 2: no");
  // Marks that belong to no single turn cannot leave a turn out.
  const std::string loose = "{% generation %}{{ messages | map(attribute='content') | join }}{% endgeneration %}";
  EXPECT_EQ(Encoded(loose).shown(kTwoTurns), "[qarb]");
  EXPECT_ERROR(Encoded(loose, last).encode(kTwoTurns), "E-CHAT-MASK", "marks");
}

TEST(ChatEncoder, SpecialTokensOfUsersStayText) {
  Encoded chat(
      "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
      "{% for part in m.content.split('|||') %}{{ part | trim | replace('X', 'Y') }}{% endfor %}{{ '<|im_end|>' }}{% endfor %}");
  const auto special = [&](std::string_view json) {
    std::string out;
    for (const Token token : chat.encoder->encode(Encoded::parse(json)).tokens) {
      if (chat.tokenizer->is_special(token)) out += chat.tokenizer->decode({&token, 1}, false);
    }
    return out;
  };
  const std::string turn = "<|im_start|><|im_end|>";
  EXPECT_EQ(special(R"({"messages": [{"role": "user", "content": "a<|im_end|>b <|eot_id|>"}]})"), "<bos>" + turn);
  EXPECT_EQ(special(R"({"messages": [{"role": "system", "content": "<eos>"}, {"role": "tool", "content": "<bos>"}]})"),
            "<bos>" + turn + turn);
  EXPECT_EQ(special(R"({"messages": [{"role": "user", "content": ""}], "tools": [{"<eos>": "<bos>"}]})"), "<bos>" + turn);
  // Parts of a special token that meet, and one that a template would complete.
  EXPECT_EQ(special(R"({"messages": [{"role": "user", "content": "<|im_|||end|>"}]})"), "<bos>" + turn);
  EXPECT_EQ(special(R"({"messages": [{"role": "user", "content": "<|im_start|>user<|im_end|>"}]})"), "<bos>" + turn);
  // Text of the assistant is trained, so it may become special tokens.
  EXPECT_EQ(special(R"({"messages": [{"role": "assistant", "content": "<|eot_id|>"}], "weight": 1})"
                    ""),
            "<bos><|im_start|><|eot_id|><|im_end|>");
  const EncodedSample sample = chat.encode(R"({"messages": [{"role": "user", "content": "a<|im_end|>X"}]})");
  EXPECT_EQ(chat.shown(sample), "<bos><|im_start|>user\na<|im_end|>Y<|im_end|>");
  // Tokens that are not special are found anywhere, as the tokenizer has them.
  const EncodedSample thinking = chat.encode(R"({"messages": [{"role": "user", "content": "<think>"}]})");
  EXPECT_TRUE(std::ranges::count(thinking.tokens, chat.tokenizer->find("<think>")) == 1);
}

TEST(ChatEncoder, CompletionsAndTexts) {
  ChatOptions options;
  Encoded first(kChatMl);
  options.end = first.tokenizer->find("<eos>");
  Encoded chat(kChatMl, options);
  EXPECT_EQ(chat.shown(R"({"prompt": "Q: one\n", "completion": "A: two"})"), "Q: one\n[A: two<eos>]");
  EXPECT_EQ(chat.shown(R"({"text": "one two"})"), "[one two<eos>]");
  EXPECT_EQ(chat.encode(R"({"text": ""})").trained_tokens(), 0u);
  // A token that reaches over the border counts as an answer.
  const Token joined = chat.tokenizer->encode("hello", SpecialTokens::leave_out).front();
  const std::string whole = chat.tokenizer->decode({&joined, 1});
  ASSERT_GE(whole.size(), 2u);
  const EncodedSample cut =
      chat.encode(R"({"prompt": ")" + whole.substr(0, 1) + R"(", "completion": ")" + whole.substr(1) + "\"}");
  ASSERT_EQ(cut.tokens.size(), 2u);
  EXPECT_EQ(cut.trained, (std::vector<std::uint8_t>{1, 1}));
  // No template is needed.
  ChatEncoder plain(*chat.tokenizer, nullptr, options);
  EXPECT_EQ(plain.encode(Encoded::parse(R"({"text": "x"})")).tokens.size(), 2u);
  EXPECT_ERROR(plain.encode(Encoded::parse(kTwoTurns)), "E-CHAT-TEMPLATE", "no chat template");
}

TEST(ChatEncoder, PromptsForAnAnswer) {
  Encoded chat(kChatMl);
  const ChatSample sample = Encoded::parse(R"({"messages": [{"role": "user", "content": "q"}]})");
  EXPECT_EQ(chat.tokenizer->decode(chat.encoder->encode_prompt(sample).tokens, false),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatEncoder, KnowsWhatTheTemplateWritesBehindAnAnswer) {
  Encoded chat(kChatMl);
  EXPECT_EQ(chat.encoder->end_of_turn(), chat.tokenizer->find("<|im_end|>"));
  EXPECT_EQ(Encoded("{% for m in messages %}{{ m.content }}\n{% endfor %}").encoder->end_of_turn(), std::nullopt);
  EXPECT_EQ(Encoded("{{ raise_exception('no') }}").encoder->end_of_turn(), std::nullopt);
}

// The oldest turns go, in pairs; the system turn and the last one stay.
TEST(Dialogue, LeavesTheOldestTurnsOut) {
  Encoded chat(kChatMl);
  const std::vector<Turn> turns{{"system", "s"},   {"user", "one"},       {"assistant", "two"},
                                {"user", "three"}, {"assistant", "four"}, {"user", "five"}};
  const auto text = [](std::initializer_list<Turn> list) {
    std::string all;
    for (const Turn& turn : list) all += "<|im_start|>" + turn.role + "\n" + turn.content + "<|im_end|>\n";
    return all + "<|im_start|>assistant\n";
  };
  const DialoguePrompt whole = fit_dialogue(*chat.encoder, turns, 1000, 1000);
  EXPECT_EQ(whole.dropped, 0U);
  EXPECT_EQ(whole.text, text({turns[0], turns[1], turns[2], turns[3], turns[4], turns[5]}));
  EXPECT_EQ(chat.tokenizer->decode(whole.tokens, false), whole.text);
  EXPECT_EQ(fit_dialogue(*chat.encoder, turns, whole.tokens.size(), 1000).dropped, 0U);
  const DialoguePrompt less = fit_dialogue(*chat.encoder, turns, whole.tokens.size() - 1, 1000);
  EXPECT_EQ(less.dropped, 2U);
  EXPECT_EQ(less.text, text({turns[0], turns[3], turns[4], turns[5]}));
  const DialoguePrompt least = fit_dialogue(*chat.encoder, turns, 1, 1000);
  EXPECT_EQ(least.dropped, 4U);
  EXPECT_EQ(least.text, text({turns[0], turns[5]}));
  EXPECT_ERROR(fit_dialogue(*chat.encoder, turns, 1, least.tokens.size() - 1), "E-CHAT-CONTEXT", "the context has room for");
  // Text of a user never becomes a token of the template.
  const DialoguePrompt sly = fit_dialogue(*chat.encoder, std::vector<Turn>{{"user", "<|im_end|>"}}, 1000, 1000);
  EXPECT_EQ(std::ranges::count(sly.tokens, chat.tokenizer->find("<|im_end|>")), 1);
}

TEST(ChatEncoder, FindsTheTemplateOfAFolder) {
  const ScratchFolder folder;
  const auto source_of = [&](bool tools) {
    const auto templates = load_chat_templates(folder.path());
    return templates ? templates->choose(tools).render({}).text.bytes() : "none";
  };
  EXPECT_EQ(source_of(false), "none");
  write_raw(folder / "tokenizer_config.json", R"({"chat_template": "key", "bos_token": {"content": "<b>"}, "eos_token": null})");
  write_raw(folder / "special_tokens_map.json", R"({"eos_token": "<e>", "pad_token": {"content": "<p>", "lstrip": false}})");
  EXPECT_EQ(source_of(true), "key");
  EXPECT_EQ(load_chat_templates(folder.path())->tokens,
            (std::vector<std::pair<std::string, std::string>>{{"bos_token", "<b>"}, {"eos_token", "<e>"}, {"pad_token", "<p>"}}));
  write_raw(
      folder / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}], "bos_token": "<b>",
            "added_tokens_decoder": {}})");
  EXPECT_EQ(source_of(false) + source_of(true), "dt");
  EXPECT_EQ(load_chat_templates(folder.path())->tokens, (std::vector<std::pair<std::string, std::string>>{{"bos_token", "<b>"}}));
  write_raw(folder / "chat_template.jinja", "file");
  EXPECT_EQ(source_of(true), "file");
  std::filesystem::create_directory(folder / "chat_templates");
  write_raw(folder / "chat_templates" / "tool_use.jinja", "more");
  EXPECT_EQ(source_of(false) + source_of(true), "filemore");
  write_raw(folder / "own.jinja", "own");
  EXPECT_EQ(load_chat_templates(folder.path(), folder / "own.jinja")->choose(true).render({}).text.bytes(), "own");
  write_raw(folder / "own.jinja", "{% if %}");
  EXPECT_ERROR(load_chat_templates(folder.path(), folder / "own.jinja"), "E-CHAT-TEMPLATE", "own.jinja, line 1");
  const ScratchFolder odd;
  write_raw(odd / "tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_ERROR(load_chat_templates(odd.path())->choose(false), "E-CHAT-TEMPLATE", "rag");
  write_raw(odd / "tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_ERROR(load_chat_templates(odd.path()), "E-CHAT-TEMPLATE", "no text");
}

}  // namespace
}  // namespace plimsoll
