#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"
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

}  // namespace

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
