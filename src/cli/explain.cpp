#include "cli/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "base/text.h"

namespace plimsoll {
namespace {

constexpr std::size_t kTextWidth = 100;

std::string full_code(std::string_view text) {
  std::string code(text);
  std::transform(code.begin(), code.end(), code.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return code.starts_with("E-") ? code : "E-" + code;
}

// Breaks a paragraph at spaces and indents what follows the label.
std::string paragraph(std::string_view label, std::string_view text) {
  std::string out;
  std::string line = fmt::format("  {:<9}", label);
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (line.size() + word.size() > kTextWidth) {
      out += line + "\n";
      line = std::string(11, ' ');
    } else if (line.size() > 11) {
      line += ' ';
    }
    line += word;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out + line + "\n";
}

std::string shown(const CodeExplanation& explanation) {
  return fmt::format("{}\n{}{}{}{}", explanation.code, paragraph("what", explanation.meaning),
                     paragraph("why", explanation.cause), paragraph("what now", explanation.remedy),
                     paragraph("command", explanation.command));
}

// The common part of two spellings of a word.
std::string plain(std::string_view word) {
  std::string text;
  for (const char c : word) {
    if (c != ' ' && c != '-' && c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (text.size() > 4 && (text.ends_with("sses") || text.ends_with("ches"))) {
    text.resize(text.size() - 2);
  } else if (text.size() > 3 && text.ends_with('s') && !text.ends_with("ss")) {
    text.pop_back();
  }
  return text;
}

bool begins_as_code(std::string_view what) { return what.size() > 1 && (what[0] == 'E' || what[0] == 'e') && what[1] == '-'; }

bool is_code(const std::string& what) {
  const std::string code = full_code(what);
  return std::ranges::any_of(code_explanations(), [&](const CodeExplanation& each) { return each.code == code; });
}

}  // namespace

bool is_plan_word(const std::string& what) {
  return std::ranges::any_of(word_explanations(), [&](const WordExplanation& each) { return plain(each.word) == plain(what); });
}

std::string explain_word(const std::string& what) {
  std::vector<std::string> words;
  for (const WordExplanation& each : word_explanations()) {
    if (plain(each.word) == plain(what)) return fmt::format("{}\n{}", each.word, paragraph("what", each.meaning));
    words.emplace_back(each.word);
  }
  // Codes have a hyphen in the middle; values of a plan have dots.
  const bool dotted = what.find('.') != std::string::npos;
  if (is_code(what) || what.empty() || begins_as_code(what)) {
    return explain_code(what);
  }
  if (const std::string nearest = nearest_name(what, words); !nearest.empty() && !dotted) {
    throw config_error("E-EXPLAIN-CODE", "explain", fmt::format("'{}' is no error code and no word of a plan", what),
                       "the nearest is " + nearest, {fmt::format("plimsoll explain {}", shell_quoted(nearest))});
  }
  throw config_error(
      "E-EXPLAIN-VALUE", "explain",
      fmt::format("'{}' is no error code and no word of a plan; if it is a value, the plan that has it is missing", what),
      fmt::format("a code (E-PLAN-FIT), one of {}, or a value and --plan", fmt::join(words, ", ")),
      {"plimsoll plan CONFIG --out plan.json", fmt::format("plimsoll explain {} --plan plan.json", shell_quoted(what))});
}

std::string explain_code(std::string_view code) {
  const std::string wanted = full_code(code);
  std::vector<std::string> codes;
  for (const CodeExplanation& explanation : code_explanations()) {
    if (explanation.code == wanted) return shown(explanation);
    codes.emplace_back(explanation.code);
  }
  const std::string nearest = nearest_name(wanted, codes);
  throw config_error("E-EXPLAIN-CODE", "explain", fmt::format("'{}' is no error code", code),
                     nearest.empty() ? "a code as it stands at the beginning of an error" : "the nearest is " + nearest,
                     {"plimsoll explain " + (nearest.empty() ? "E-PLAN-FIT" : nearest)});
}

}  // namespace plimsoll
