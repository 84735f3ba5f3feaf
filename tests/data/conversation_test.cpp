#include "data/conversation.h"

#include <gtest/gtest.h>

#include "data/json_records.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

std::vector<ChatSample> read_all(const std::filesystem::path& path) {
  SampleReader reader{DataPaths(path)};
  std::vector<ChatSample> samples;
  while (auto sample = reader.next()) samples.push_back(std::move(*sample));
  return samples;
}

ChatSample one(std::string_view json) {
  ChatSample sample;
  sample.file = "data.jsonl";
  sample.line = 7;
  return parse_sample(json, sample);
}

TEST(Conversation, RefusesASamplePastTheLimitWithItsLine) {
  const ScratchFolder folder;
  const std::string small = R"({"text": "a"})", large = R"({"text": ")" + std::string(1000, 'b') + R"("})";
  for (const bool array : {false, true}) {
    write_raw(folder / "x.json", array ? "[" + small + ",\n" + large + "]" : small + "\n" + large + "\n");
    SampleReader reader(DataPaths(folder / "x.json"), 1000);
    EXPECT_EQ(reader.next()->completion, "a");
    EXPECT_ERROR(reader.next(), "E-DATA-JSON", "x.json:2] a " + std::string(array ? "sample" : "line") + " is longer than 1000");
    SampleReader whole(DataPaths(folder / "x.json"), 2000);
    EXPECT_EQ((whole.next(), whole.next()->completion.size()), 1000u);
  }
  EXPECT_ERROR(one(R"({"messages": [)" + std::string(2'000'000, ' ') + "[]" +
                   [] {
                     std::string more;
                     for (int i = 0; i < 200'000; ++i) more += ",[]";
                     return more;
                   }() +
                   "]}"),
               "E-DATA-JSON", "more than 200000 values");
}

std::string shown(const jinja::Value& value) { return repr_of(value).bytes(); }

TEST(Conversation, ReadsEachFormat) {
  const ScratchFolder folder;
  write_raw(folder / "a.jsonl",
            "\xef\xbb\xbf\n"
            R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0}], "tools": []})"
            "\r\n\n  \t\n"
            R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "system": "s"})"
            "\n"
            R"({"instruction": "i", "input": "x", "output": "o"})"
            "\n"
            R"({"instruction": "i", "input": "", "output": "o", "system": "s"})"
            "\n"
            R"({"prompt": "p", "completion": "c"})"
            "\n"
            R"({"text": "t"})"
            "\n"
            R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})");
  SampleReader reader{DataPaths(folder.path())};
  std::vector<ChatSample> samples;
  while (auto sample = reader.next()) samples.push_back(std::move(*sample));
  ASSERT_EQ(samples.size(), 7u);
  EXPECT_EQ(reader.counts(), (std::array<std::int64_t, kSampleFormats>{1, 1, 2, 2, 1}));
  EXPECT_EQ(samples[0].where(), (folder / "a.jsonl").string() + ":2");
  EXPECT_EQ(shown(samples[0].messages), "[{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]");
  EXPECT_EQ(samples[0].trained, (std::vector<bool>{true, false}));
  EXPECT_EQ(shown(samples[0].tools), "[]");
  EXPECT_EQ(samples[1].line, 5);
  EXPECT_EQ(samples[1].format, SampleFormat::sharegpt);
  EXPECT_EQ(shown(samples[1].messages),
            "[{'role': 'system', 'content': 's'}, {'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'a'}]");
  EXPECT_TRUE(samples[1].tools.is_none());
  EXPECT_EQ(shown(samples[2].messages), "[{'role': 'user', 'content': 'i\\nx'}, {'role': 'assistant', 'content': 'o'}]");
  EXPECT_EQ(samples[3].messages.list()->items.size(), 3u);
  EXPECT_FALSE(samples[4].is_chat());
  EXPECT_EQ(samples[4].prompt + "|" + samples[4].completion, "p|c");
  EXPECT_EQ(samples[5].completion, "t");
  EXPECT_EQ(samples[6].first_trained, 1u);
  EXPECT_EQ(samples[6].index, 6);
}

TEST(Conversation, KeepsKeysAndDropsNulls) {
  const ChatSample sample = one(
      R"({"messages": [{"name": "x", "role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
      "arguments": {"z": 1, "a": null}}}]}], "tools": "[{\"b\": 1, \"a\": 2}]", "chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(
      shown(sample.messages),
      "[{'name': 'x', 'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': {'z': 1, 'a': None}}}]}]");
  EXPECT_EQ(shown(sample.tools), "[{'b': 1, 'a': 2}]");
  ASSERT_EQ(sample.variables.size(), 1u);
  EXPECT_EQ(sample.variables[0].first, "enable_thinking");
}

TEST(Conversation, ReadsArraysElementByElement) {
  const ScratchFolder folder;
  std::string array = " [\n";
  for (int i = 0; i < 3000; ++i) {
    array += (i > 0 ? ",\n" : "") + std::string(R"({"text": "]},[{\" )") + std::to_string(i) + std::string(300, 'x') + R"("})";
  }
  write_raw(folder / "a.json", array + "\n]\n");
  const std::vector<ChatSample> samples = read_all(folder / "a.json");
  ASSERT_EQ(samples.size(), 3000u);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i].completion, "]},[{\" " + std::to_string(i) + std::string(300, 'x'));
    ASSERT_EQ(samples[i].line, static_cast<std::int64_t>(i) + 2);
  }
  write_raw(folder / "none.json", "[]");
  EXPECT_TRUE(read_all(folder / "none.json").empty());
  write_raw(folder / "empty.jsonl", "\n \n");
  EXPECT_TRUE(read_all(folder / "empty.jsonl").empty());
}

TEST(Conversation, BrokenJsonIsNamedByFileAndLine) {
  const ScratchFolder folder;
  const auto refused = [&](std::string_view text, const std::string& fragment) {
    write_raw(folder / "a.json", text);
    EXPECT_ERROR(read_all(folder / "a.json"), "E-DATA-JSON", fragment);
  };
  refused("{\"text\": \"a\"}\n{\"text\": ", "a.json:2");
  refused("{\"text\": \"a\"}\n\n{\"text\": \"\xff\"}", "a.json:3");
  refused("{\"text\": \"\\ud800\"}", "a.json:1");
  refused("[{\"text\": \"a\"},\n\n {\"text\":\n\n oops}]", "a.json:5");
  refused("[{\"text\": \"a\"}\n{\"text\": \"b\"}]", "a.json:2");
  refused("[{\"text\": \"a\"}", "the array has no end");
  refused("[{\"text\": \"a\"", "the file ends within this element");
  refused("[{\"text\": \"a\"}] x", "something follows");
  refused("[{\"text\": \"a\"}, ]", "is missing");
  refused("[,]", "is missing");
  refused("{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}", "nested deeper");
}

TEST(Conversation, RefusesOtherKindsByName) {
  const ScratchFolder folder;
  write_raw(folder / "a.parquet", "PAR1" + std::string(100, '\0') + "PAR1");
  EXPECT_ERROR(read_all(folder / "a.parquet"), "E-DATA-FORMAT", "a Parquet file");
  write_raw(folder / "a.csv", "a,b\n1,2\n");
  EXPECT_ERROR(read_all(folder / "a.csv"), "E-DATA-FORMAT", "a table");
  EXPECT_ERROR(read_all(folder / "absent.jsonl"), "E-DATA-MISSING", "absent.jsonl");
  EXPECT_ERROR(one(R"({"chosen": "a", "rejected": "b", "prompt": "c"})"), "E-CHAT-FEATURE", "data.jsonl:7");
  EXPECT_ERROR(one(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})"), "E-CHAT-FEATURE",
               "image_url");
  EXPECT_ERROR(one(R"({"messages": [], "images": ["a.png"]})"), "E-CHAT-FEATURE", "images");
  EXPECT_ERROR(one(R"({"conversations": [{"from": "function_call", "value": "{}"}]})"), "E-CHAT-FEATURE", "function_call");
  EXPECT_ERROR(one(R"({"instruction": "a", "output": "b", "history": [["q", "a"]]})"), "E-CHAT-FEATURE", "history");
}

TEST(Conversation, RefusesSamplesThatLackSomething) {
  const auto refused = [](std::string_view json, const char* fragment) {
    EXPECT_ERROR(one(json), "E-CHAT-SAMPLE", fragment);
    EXPECT_ERROR(one(json), "E-CHAT-SAMPLE", "data.jsonl:7");
  };
  refused("[1]", "is a list");
  refused("{}", "no keys");
  refused(R"({"question": "a", "answer": "b"})", "question, answer");
  refused(R"({"messages": []})", "empty");
  refused(R"({"messages": "x"})", "type str");
  refused(R"({"messages": [1]})", "message 1");
  refused(R"({"messages": [{"content": "x"}]})", "no role");
  refused(R"({"messages": [{"role": "user"}]})", "no content");
  refused(R"({"messages": [{"role": "<|im_end|>", "content": ""}]})", "role");
  refused(R"({"messages": [{"role": "user", "content": 5}]})", "type int");
  refused(R"({"messages": [{"role": "user", "content": [{"text": "x"}]}]})", "no type");
  refused(R"({"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]})", "0.5");
  refused(R"({"messages": [{"role": "user", "content": "x"}], "tools": "{"})", "no JSON");
  refused(R"({"messages": [{"role": "user", "content": "x"}], "tools": [1]})", "a tool");
  refused(R"({"conversations": [{"from": "alien", "value": "x"}]})", "alien");
  refused(R"({"prompt": "x", "completion": []})", "prompt");
  refused(R"({"prompt": [], "completion": []})", "empty");
  refused(R"({"text": 1})", "type int");
}

}  // namespace
}  // namespace plimsoll
