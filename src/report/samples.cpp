#include "report/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "report/html.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostRows = 12, kMostText = 1200;

std::string text_html(const std::string& text) {
  return text.empty() ? "<span class=\"dim\">nothing</span>" : escaped(shortened(text, kMostText));
}

// All answers, or a part with the first and the last.
std::vector<std::size_t> rows_of(const AnsweredPrompt& prompt) {
  const std::size_t all = prompt.answers.size();
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < std::min(all, kMostRows); ++i)
    rows.push_back(all <= kMostRows ? i : i * (all - 1) / (kMostRows - 1));
  return rows;
}

std::string prompt_html(const AnsweredPrompt& prompt, std::size_t number) {
  const std::vector<std::size_t> rows = rows_of(prompt);
  const auto shown = static_cast<std::int64_t>(rows.size());
  Table table(shown < prompt.count ? fmt::format("{} of {} answers", shown, grouped(prompt.count)) : std::string(),
              {"update", "answer"}, /*numbers=*/false);
  for (const std::size_t row : rows) {
    table.row({grouped(prompt.answers[row].first), text_html(prompt.answers[row].second)});
  }
  table.row({"expected", text_html(prompt.expected)});
  return fmt::format("<h3>Prompt {}</h3>\n<pre><code>{}</code></pre>\n{}", number, escaped(shortened(prompt.prompt, kMostText)),
                     table.html());
}

}  // namespace

std::string samples_html(const ReportedRun& reported) {
  const auto& prompts = reported.history.prompts;
  std::string html;
  for (std::size_t i = 0; i < prompts.size(); ++i) html += prompt_html(prompts[i], i + 1);
  return html;
}

}  // namespace plimsoll
