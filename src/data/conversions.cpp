#include "data/conversions.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/shell.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Cells = std::vector<std::string>;

// "data.jsonl" next to "data.csv", or the first free name of data-2.jsonl, data-3.jsonl, ...
fs::path new_file_beside(const fs::path& file, std::string_view extension) {
  std::error_code ignored;
  fs::path stem = file.parent_path() / file.stem();
  for (int i = 1;; ++i) {
    fs::path path = stem;
    if (i > 1) path += fmt::format("-{}", i);
    path += extension;
    if (!fs::exists(path, ignored)) return path;
  }
}

// A text as Python and JSON write it.
std::string literal(std::string_view text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

char delimiter_of(std::string_view begin) {
  const std::string_view names = begin.substr(0, begin.find('\n'));
  const auto count = [&](char c) { return std::ranges::count(names, c); };
  return std::ranges::max(std::initializer_list<char>{',', ';', '\t'}, {}, count);
}

// The next record of a table, whose cells may be quoted. The end of the text may cut the last cell.
Cells next_record(std::string_view& text, char delimiter) {
  Cells cells(1);
  bool quoted = false;
  std::size_t at = 0;
  for (; at < text.size() && (quoted || text[at] != '\n'); ++at) {
    if (text[at] == '"') {
      const bool twice = quoted && text.substr(at + 1).starts_with('"');
      if (twice) cells.back() += text[++at];
      quoted = twice == quoted;
    } else if (text[at] == delimiter && !quoted) {
      cells.emplace_back();
    } else if (text[at] != '\r') {
      cells.back() += text[at];
    }
  }
  text.remove_prefix(std::min(text.size(), at + 1));
  return cells;
}

struct Table {
  char delimiter = ',';
  Cells names, first;  // the names of its columns, and the first row

  bool has(std::string_view name) const { return std::ranges::find(names, name) != names.end(); }
  std::optional<std::string> any_of(std::initializer_list<std::string_view> wanted) const {
    for (const std::string_view name : wanted) {
      if (has(name)) return std::string(name);
    }
    return {};
  }
  std::string longest() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < std::min(names.size(), first.size()); ++i) {
      if (first[i].size() > first[best].size()) best = i;
    }
    return names.at(best);
  }
};

Table table_of(std::string_view begin) {
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);  // the mark of UTF-8
  Table table{delimiter_of(begin), {}, {}};
  table.names = next_record(begin, table.delimiter);
  table.first = next_record(begin, table.delimiter);
  return table;
}

// The command that prints the file with a Python script into a new file next to it.
std::string printed_by(const std::string& script, const char* extension, const std::string& remark, const std::string& file) {
  return fmt::format("python3 -c {} {} > {}{}{}", shell_quoted(script), shell_quoted(file),
                     shell_quoted(new_file_beside(file, extension).string()), remark.empty() ? "" : "  # ", remark);
}

std::string of_rows(const Table& table, const std::string& printed, const std::string& condition, const char* extension,
                    const std::string& remark, const std::string& file) {
  std::string options = R"(newline="", encoding="utf-8-sig"))";
  if (table.delimiter != ',') options += fmt::format(", delimiter={}", table.delimiter == '\t' ? R"("\t")" : R"(";")");
  const std::string script = fmt::format(
      "import csv, json, sys; csv.field_size_limit(1 << 30); [print({}) for row in csv.DictReader(open(sys.argv[1], "
      "{}) if {}]",
      printed, options, condition);
  return printed_by(script, extension, remark, file);
}

std::string given(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += fmt::format("{}row[{}]", text.empty() ? "" : " and ", literal(key));
  return text;
}

std::string samples(const Table& table, const std::vector<std::pair<std::string, std::string>>& keys, const std::string& file,
                    const std::string& remark = {}) {
  std::string object;
  std::vector<std::string> columns;
  for (const auto& [key, column] : keys) {
    object += fmt::format("{}{}: row[{}]", object.empty() ? "" : ", ", literal(key), literal(column));
    columns.push_back(column);
  }
  return of_rows(table, fmt::format("json.dumps({{{}}})", object), given(columns), ".jsonl", remark, file);
}

// "text" if the first object of a text has this key, else its key with the longest text. The end of the text may be cut.
std::string key_of_text(std::string_view begin) {
  std::string longest = "text", key;
  std::optional<std::size_t> bytes;
  int objects = 0;
  bool has_text = false, done = false;
  const auto look = [&](int, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) ++objects;
    if (event == Event::object_end) done = --objects == 0 || done;
    if (done || objects != 1) return true;
    if (event == Event::key) key = parsed.get<std::string>();
    if (event != Event::value || !parsed.is_string()) return true;
    const std::size_t size = parsed.get_ref<const std::string&>().size();
    has_text = has_text || key == "text";
    if (size > bytes.value_or(0) || !bytes) longest = key, bytes = size;
    return true;
  };
  [[maybe_unused]] const Json all = Json::parse(begin.begin(), begin.end(), look, /*allow_exceptions=*/false);
  return has_text ? "text" : longest;
}

}  // namespace

std::string conversion(std::string command, const std::string& file) {
  const auto put = [&](std::string_view name, const std::string& by) {
    if (const std::size_t at = command.find(name); at != std::string::npos) command.replace(at, name.size(), by);
  };
  // An inserted name may itself hold a placeholder, so the last placeholder is replaced first.
  for (const std::string extension : {".txt", ".jsonl", ".bin"}) {
    put("OUT" + extension, shell_quoted(new_file_beside(file, extension).string()));
  }
  put("FILE", shell_quoted(file));
  return command;
}

std::string text_of_table(std::string_view begin, const std::string& file) {
  const Table table = table_of(begin);
  const std::string column = table.any_of({"text", "content"}).value_or(table.longest());
  return of_rows(table, fmt::format("row[{}]", literal(column)), given({column}), ".txt",
                 fmt::format("the column {}", literal(column)), file);
}

std::string samples_of_table(std::string_view begin, const std::string& file) {
  const Table table = table_of(begin);
  for (const std::string name : {"messages", "conversations"}) {
    if (!table.has(name)) continue;
    return of_rows(table, fmt::format("json.dumps({{{0}: json.loads(row[{0}])}})", literal(name)), given({name}), ".jsonl", {},
                   file);
  }
  if (table.has("prompt") && table.has("completion")) {
    return samples(table, {{"prompt", "prompt"}, {"completion", "completion"}}, file);
  }
  if (table.has("instruction") && table.has("output")) {
    const std::string input = table.has("input") ? R"(, "input": row["input"])" : "";
    return of_rows(table, fmt::format(R"(json.dumps({{"instruction": row["instruction"]{}, "output": row["output"]}}))", input),
                   given({"instruction", "output"}), ".jsonl", {}, file);
  }
  if (table.has("text")) return samples(table, {{"text", "text"}}, file);
  auto asked = table.any_of({"prompt", "question", "instruction", "query", "input", "user", "human", "source"});
  auto told = table.any_of({"completion", "answer", "response", "output", "reply", "assistant", "target", "label"});
  if (!(asked && told) && table.names.size() == 2) asked = table.names[0], told = table.names[1];
  if (asked && told && *asked != *told) {
    return samples(table, {{"prompt", *asked}, {"completion", *told}}, file,
                   fmt::format("{} as the prompt, {} as the answer", literal(*asked), literal(*told)));
  }
  return samples(table, {{"text", table.longest()}}, file, fmt::format("the column {}", literal(table.longest())));
}

std::string text_of_json(std::string_view begin, bool lines, const std::string& file) {
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3);
  const std::string key = literal(key_of_text(begin));
  const std::string rows = lines ? R"((json.loads(line) for line in open(sys.argv[1], encoding="utf-8-sig") if line.strip()))"
                                 : R"(json.load(open(sys.argv[1], encoding="utf-8-sig")))";
  const std::string script = fmt::format("import json, sys; [print(row[{0}]) for row in {1} if row.get({0})]", key, rows);
  return printed_by(script, ".txt", "the key " + key, file);
}

}  // namespace plimsoll
